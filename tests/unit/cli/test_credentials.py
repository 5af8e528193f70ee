import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from heliograph.cli.connectors import app
from heliograph.config.access import Entry, Role, hash_password, make_token, put_entry
from heliograph.config.listeners import parse_listen
from heliograph.connect.herder import RestError
from heliograph.errors import ConfigError
from heliograph.web.app import make_app
from heliograph.web.server import make_server
from tests.fakes import InMemoryHerder
from tests.web.certificates import Certificates, make_certificates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("credentials")


@pytest.fixture(scope="module")
def certificates(folder: Path) -> Certificates:
    return make_certificates(folder)


@pytest.fixture(scope="module")
def token_file(folder: Path) -> Path:
    token, hashed = make_token()
    put_entry(folder / "access", Entry(Role.OPERATE, "ci", hashed))
    put_entry(folder / "access", Entry(Role.VIEW, "ann", hash_password("open sesame")))
    file = folder / "token"
    file.write_text(f"{token}\n")
    return file


@pytest.fixture(scope="module")
def url(certificates: Certificates, token_file: Path) -> Iterator[str]:
    props = {
        "rest.access.file": str(token_file.with_name("access")),
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(certificates.server),
    }
    server = make_server(make_app(InMemoryHerder()), parse_listen("https://127.0.0.1:0"), props)
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(autouse=True)
def trust(monkeypatch: pytest.MonkeyPatch, certificates: Certificates, url: str) -> None:
    monkeypatch.setenv("HELIOGRAPH_URL", url)
    monkeypatch.setenv("HELIOGRAPH_CACERT", str(certificates.authority))


def call(*arguments: object, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)


def test_a_password_is_asked_for_on_the_other_stream() -> None:
    done = call("list", "--user", "ann", "--json", typed="open sesame\n")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert "Password of ann" in done.stderr
    assert "open sesame" not in done.output


def test_a_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", "open sesame")
    assert call("list", "--user", "ann").output == "no connectors\n"


def test_a_token_comes_from_its_file(token_file: Path) -> None:
    assert call("list", "--token-file", token_file).output == "no connectors\n"


def test_who_does_not_log_in_is_told_how() -> None:
    done = call("list")
    assert isinstance(done.exception, RestError)
    assert str(done.exception).endswith("Give --user or --token-file.")


def test_who_may_not_is_told_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_PASSWORD", "open sesame")
    done = call("pause", "x", "--user", "ann")
    assert str(done.exception) == "this needs the role operate, and ann has view."


def test_a_certificate_that_nobody_vouches_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELIOGRAPH_CACERT")
    done = call("list")
    assert isinstance(done.exception, ConfigError)
    assert "its certificate is not trusted" in str(done.exception)
    assert "--cacert" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--user ann --token-file x", "not with both"),
        ("--user ann:secret", "a name has no colon"),
        ("--token-file /nowhere", "--token-file /nowhere: it cannot be read"),
        (f"--token-file {__file__}", "it must hold one token"),
        (f"--cacert {__file__}", "it holds no certificates"),
        ("--cacert /nowhere", "--cacert /nowhere: it cannot be used"),
    ],
)
def test_a_login_that_cannot_be_is_a_mistake(arguments: str, message: str) -> None:
    done = call("list", *arguments.split())
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
