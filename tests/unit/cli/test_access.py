from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from heliograph.cli.access import app
from heliograph.config.access import Password, Role, Token, read_entries
from heliograph.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "access"


def call(*arguments: object, typed: str = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)


def test_a_password_is_asked_for_twice_and_never_shown(file: Path) -> None:
    done = call(
        *("add", "ann", "--role", "operate", "--file", file), typed="open sesame\nopen sesame\n"
    )
    assert done.exit_code == 0
    assert "open sesame" not in done.output
    assert "ann was added with a password, role operate." in done.output
    (entry,) = read_entries(file)
    assert (entry.role, entry.name) == (Role.OPERATE, "ann")
    assert isinstance(entry.proof, Password)
    assert entry.proof.fits("open sesame")
    assert not entry.proof.fits("open sesam")
    assert "open sesame" not in file.read_text()


def test_a_token_is_printed_once_and_alone_on_its_stream(file: Path) -> None:
    done = call("add", "ci", "--role", "view", "--token", "--file", file)
    assert done.exit_code == 0
    token = done.stdout.strip()
    (entry,) = read_entries(file)
    assert isinstance(entry.proof, Token)
    assert entry.proof.fits(token)
    assert token not in file.read_text()


def test_adding_again_replaces_the_password_and_leaves_the_token(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPH_ACCESS_FILE", str(file))
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", "the first one")
    call("add", "ann", "--role", "view")
    call("add", "ann", "--role", "view", "--token")
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", "the second one")
    assert (
        "ann has a new password, role failover." in call("add", "ann", "--role", "failover").output
    )

    token, password = read_entries(file)
    assert isinstance(token.proof, Token)
    assert password.proof.fits("the second one")
    shown = [line.split() for line in call("list", file).output.splitlines()]
    assert shown == [
        ["name", "role", "by"],
        ["ann", "view", "token"],
        ["ann", "failover", "password"],
    ]


@pytest.mark.parametrize(
    ("arguments", "password", "message"),
    [
        ("add ann --role admin", "long enough", "a role is one of view, operate, failover"),
        ("add a:b --role view", "long enough", "no colon"),
        ("add #a --role view", "long enough", "no # at its start"),
        ("add ann --role view", "short", "at least 8 characters"),
    ],
)
def test_an_entry_that_cannot_be_is_a_mistake(
    file: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, password: str, message: str
) -> None:
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", password)
    done = call(*arguments.split(), "--file", file)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
    assert not file.exists()


GOOD = "sha256$" + "A" * 43 + "="


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ann", ":1: not role:name:hash"),
        (f"boss:ann:{GOOD}", ":1: boss: a role is one of"),
        ("view:ann:", ":1: ann has no hash that is known"),
        ("view:ann:md5$x", "ann has no hash that is known"),
        ("view:ann:sha256$QQ==", "ann has no hash that is known"),
        ("view:ann:sha256$???", "ann has no hash that is known"),
        ("view:ann:scrypt$40$8$1$QQ==$QQ==", "ann has no hash that is known"),
        ("view:ann:scrypt$a$8$1$QQ==$QQ==", "ann has no hash that is known"),
        (f"# all\nview:ann:{GOOD}\nview:ann:{GOOD}", ":3: ann stands there twice"),
    ],
)
def test_a_line_that_is_wrong_is_told_by_its_number(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        read_entries(file)
    assert message in str(caught.value)


def test_removing_takes_password_and_token_of_one_name_and_leaves_the_rest(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPH_ACCESS_FILE", str(file))
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", "open sesame")
    file.touch(0o600)
    file.write_text("# the night shift\n")
    for name in ("ann", "anna"):
        call("add", name, "--role", "view")
        call("add", name, "--role", "view", "--token")
    assert "ann was removed." in call("remove", "ann").output
    assert [entry.name for entry in read_entries(file)] == ["anna", "anna"]
    assert "anna has no token any more." in call("remove", "anna", "--token").output
    (left,) = read_entries(file)
    assert isinstance(left.proof, Password)
    assert file.read_text().startswith("# the night shift\n")
    assert file.stat().st_mode & 0o777 == 0o600


def test_removing_somebody_who_is_not_there_is_a_mistake(file: Path) -> None:
    call("add", "ci", "--role", "view", "--token", "--file", file)
    failed = call("remove", "ci", "--password", "--file", file)
    assert isinstance(failed.exception, ConfigError)
    assert "ci: has no password" in str(failed.exception)
    (entry,) = read_entries(file)
    assert entry.name == "ci"
