from pathlib import Path

import pytest

from heliograph.config.mistakes import InvalidSetting
from heliograph.config.properties import Properties, parse_properties
from heliograph.config.providers import resolve
from heliograph.config.secrets import HIDDEN, redact

KAFKA = "org.apache.kafka.common.config.provider."


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "v.properties").write_text("user=ann\npass=a=b\\:c\n")
    (tmp_path / "pw").write_text("from-dir")
    return tmp_path


def load(text: str, **environment: str) -> Properties:
    return resolve(parse_properties(text.encode(), "f"), environment)


def test_file_env_and_dir_work_without_being_declared(vault: Path) -> None:
    found = load(
        f"a=${{file:{vault}/v.properties:user}}\n"
        f"b=x-${{env:B}}-${{file:{vault}/v.properties:pass}}\n"
        f"c=${{dir:{vault}:pw}}\nd=${{directory:{vault}:pw}}",
        B="bee",
    )
    assert found.entries == {"a": "ann", "b": "x-bee-a=b:c", "c": "from-dir", "d": "from-dir"}
    assert found.warnings == ()


def test_a_declared_provider_works_under_its_own_name(vault: Path) -> None:
    found = load(
        f"config.providers=vault,os\nconfig.providers.vault.class={KAFKA}FileConfigProvider\n"
        f"config.providers.os.class={KAFKA}EnvVarConfigProvider\n"
        f"a=${{vault:{vault}/v.properties:user}}\nb=${{os:B}}",
        B="bee",
    )
    assert (found.entries["a"], found.entries["b"]) == ("ann", "bee")


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        (
            "${vault:/x:y}",
            "f:1: k: no provider 'vault', left as written (there are dir, directory, env, file)",
        ),
        ("${env:NOPE}", "f:1: k: ${env:NOPE} has no value, left as written"),
        ("${dir:/nowhere:x}", "f:1: k: ${dir:/nowhere:x} has no value, left as written"),
    ],
)
def test_what_cannot_be_found_stays_with_a_warning(value: str, warning: str) -> None:
    found = load(f"k={value}")
    assert found.entries["k"] == value
    assert found.warnings == (warning,)


def test_text_that_only_looks_like_an_expression_stays_silently() -> None:
    found = load("k=${x}\nl=$5")
    assert found.entries == {"k": "${x}", "l": "$5"}
    assert found.warnings == ()


def test_a_java_provider_is_reported() -> None:
    found = load("config.providers=v\nconfig.providers.v.class=com.example.Vault\nk=${v:a:b}")
    assert found.warnings[0].startswith(
        "f:2: config.providers.v.class: com.example.Vault is a Java"
    )


def test_a_secret_file_that_is_not_there_is_an_error(vault: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"f:1: k=.*none\.properties cannot be read"):
        load(f"k=${{file:{vault}/none.properties:x}}")


def test_restrictions_of_a_declared_provider_are_kept(vault: Path) -> None:
    found = load(
        f"config.providers=env,file\nconfig.providers.env.class={KAFKA}EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=MM2_.*\n"
        f"config.providers.file.class={KAFKA}FileConfigProvider\n"
        f"config.providers.file.param.allowed.paths={vault}/sub\n"
        f"a=${{env:HOME}}\nb=${{env:MM2_X}}\nc=${{file:{vault}/v.properties:user}}",
        HOME="h",
        MM2_X="x",
    )
    assert found.entries["a"] == "${env:HOME}"
    assert found.entries["b"] == "x"
    assert found.entries["c"].startswith("${file:")


def test_resolution_happens_once() -> None:
    assert load("k=${env:A}", A="${env:B}", B="b").entries["k"] == "${env:B}"


def test_redact_hides_by_name_and_by_origin() -> None:
    found = load(
        "A.sasl.jaas.config=j\nB.ssl.key.password=p\nmy.token=t\nclient.secret=s\n"
        "aws.credentials=c\nname=n\nx=${env:X}\nB.ssl.keystore.key=k",
        X="xx",
    )
    shown = redact(found.entries)
    assert {key for key, value in shown.items() if value == HIDDEN} == set(shown) - {"name"}
    assert shown["name"] == "n"
    assert "xx" not in repr(found.entries)


def test_what_comes_to_a_worker_is_resolved_by_the_providers_of_the_worker_alone(
    vault: Path,
) -> None:
    sent = parse_properties(
        f"config.providers=mine,file\nconfig.providers.mine.class={KAFKA}FileConfigProvider\n"
        f"config.providers.file.class={KAFKA}FileConfigProvider\n"
        f"a=${{mine:{vault}/v.properties:user}}\nb=${{file:{vault}/v.properties:user}}\n"
        f"c=${{env:B}}\nd=${{dir:{vault}:pw}}\ne=${{os:B}}".encode(),
        "connector c",
    )
    declared = {
        "config.providers": "os",
        "config.providers.os.class": f"{KAFKA}EnvVarConfigProvider",
    }

    found = resolve(sent, {"B": "bee"}, declared)
    assert {key: found.entries[key] for key in "abcd"} == {key: sent.entries[key] for key in "abcd"}
    assert found.entries["e"] == "bee"
    assert all("left as written (there are os)" in warning for warning in found.warnings)

    without = resolve(sent, {"B": "bee"}, {})
    assert without.entries == sent.entries
    assert "no provider 'mine', left as written (there are none)" in without.warnings[0]


def test_a_worker_that_allows_some_paths_allows_no_others(vault: Path) -> None:
    (vault / "open").mkdir()
    (vault / "open" / "o.properties").write_text("user=bob\n")
    sent = parse_properties(
        f"config.providers=v\nconfig.providers.v.class={KAFKA}FileConfigProvider\n"
        f"a=${{v:{vault}/open/o.properties:user}}\nb=${{v:{vault}/open/../v.properties:user}}".encode(),
        "connector c",
    )
    declared = {
        "config.providers": "v",
        "config.providers.v.class": f"{KAFKA}FileConfigProvider",
        "config.providers.v.param.allowed.paths": f"{vault}/open",
    }
    found = resolve(sent, {}, declared)
    assert (found.entries["a"], found.entries["b"]) == ("bob", sent.entries["b"])
