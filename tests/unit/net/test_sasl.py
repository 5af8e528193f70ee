"""Logins against answers that are known, and tokens by a clock of the test's own."""

import base64
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from heliograph.errors import ConfigError, TokenRefused
from heliograph.model import Sasl
from heliograph.net.sasl import Refused, log_in
from heliograph.net.token_endpoint import fetch_token
from heliograph.net.tokens import Token, TokenKeeper, plan_renewal, token_for, unsecured_token

USER = (("username", "user"), ("password", "pencil"))
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)


@pytest.fixture
def nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nonce of the example in RFC 7677."""
    monkeypatch.setattr(
        "heliograph.net.sasl.secrets.token_urlsafe", lambda _: "rOprNGfwEbeRWgbNEkqO"
    )


@pytest.mark.usefixtures("nonce")
def test_scram_says_what_its_rfc_says() -> None:
    login = log_in(Sasl("SCRAM-SHA-256", USER), "host")
    assert next(login) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.send(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        login.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.usefixtures("nonce")
@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "did not repeat our nonce"),
        (CHALLENGE.replace(b"4096", b"1"), "asks for 1 iterations"),
        (CHALLENGE.replace(b"4096", b"99999999"), "asks for 99999999 iterations"),
        (CHALLENGE.replace(b"4096", b"many"), "incomplete"),
        (b"r=rOprNGfwEbeRWgbNEkqO1", "incomplete"),
    ],
)
def test_a_false_broker_learns_nothing(challenge: bytes, why: str) -> None:
    login = log_in(Sasl("SCRAM-SHA-256", USER), "host")
    next(login)
    with pytest.raises(Refused, match=why):
        login.send(challenge)


@pytest.mark.usefixtures("nonce")
def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    login = log_in(Sasl("SCRAM-SHA-256", USER), "host")
    next(login)
    login.send(CHALLENGE)
    with pytest.raises(Refused, match="does not know our password"):
        login.send(b"v=" + base64.b64encode(b"x" * 32))


def test_a_name_may_hold_what_scram_uses_itself() -> None:
    login = log_in(Sasl("SCRAM-SHA-512", (("username", "a=b,c"), ("password", "p"))), "host")
    assert next(login).startswith(b"n,,n=a=3Db=2Cc,r=")


def test_a_login_without_its_password_is_told() -> None:
    with pytest.raises(ConfigError, match="PLAIN needs the option password"):
        log_in(Sasl("PLAIN", (("username", "u"),)), "host")


@pytest.mark.parametrize(("name", "package"), [("GSSAPI", "gssapi"), ("AWS_MSK_IAM", "botocore")])
def test_a_mechanism_whose_package_is_missing_is_told(name: str, package: str) -> None:
    if find_spec(package) is not None:
        pytest.skip(f"{package} is here")
    with pytest.raises(ConfigError, match=f"sasl.mechanism={name}: the Python package {package}"):
        next(log_in(Sasl(name), "host"))


def test_an_unsigned_token_has_the_claims_of_the_jaas_line() -> None:
    token = unsecured_token(
        {
            "unsecuredLoginStringClaim_sub": "ann",
            "unsecuredLoginListClaim_scope": ",read,write",
            "unsecuredLoginNumberClaim_level": "3",
            "unsecuredLoginLifeSeconds": "60",
            "unsecuredLoginExtension_traceId": "7",
        },
        now=1000,
    )
    head, claims, signature = token.text.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert found == {
        "iat": 1000,
        "exp": 1060,
        "sub": "ann",
        "scope": ["read", "write"],
        "level": 3,
    }
    assert signature == ""
    assert (token.expires, token.extensions) == (1060, (("traceId", "7"),))


@pytest.mark.parametrize(
    ("life", "options", "due"),
    [
        (3600, {}, 2880),
        (1000, {}, 700),  # 300 s before its end
        (100, {}, 80),  # too short for the bounds
        (3600, {"sasl.login.refresh.window.factor": "0.5"}, 1800),
        (3600, {"sasl.login.refresh.window.factor": "0.01"}, 60),
    ],
)
def test_a_token_is_renewed_when_java_would(
    life: float, options: dict[str, str], due: float
) -> None:
    assert plan_renewal(0, Token("t", life), options, jitter=0) == pytest.approx(due)


def test_a_token_serves_until_its_end_if_there_is_no_other() -> None:
    now = [0.0]
    answers: list[Callable[[], Token]] = [lambda: Token("one", 100)]

    def get() -> Token:
        return answers.pop(0)()

    def refuse() -> Token:
        raise TokenRefused("key", "url", "status 503", retriable=True)

    keeper = TokenKeeper(get, {}, clock=lambda: now[0])
    assert keeper.current().text == "one"
    now[0] = 50
    assert keeper.current().text == "one"
    now[0], answers = 90, [refuse]
    assert keeper.current().text == "one"
    now[0], answers = 101, [refuse]
    with pytest.raises(TokenRefused):
        keeper.current()
    answers = [lambda: Token("two", 200)]
    assert keeper.current().text == "two"


def test_a_token_in_a_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    url = ("sasl.oauthbearer.token.endpoint.url", f"file://{file}")
    login = Sasl("OAUTHBEARER", (url,))
    with pytest.raises(TokenRefused, match="no such file"):
        token_for(login)
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        assert token_for(login).text == text


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://id.example.com/token", "use https"),
        ("ftp://127.0.0.1/token", "use https"),
        ("https://u:p@id.example.com/", "do not stand in the URL"),
        ("http://127.0.0.1/", "set clientId and clientSecret"),
    ],
)
def test_a_secret_goes_nowhere_in_the_clear(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        fetch_token(url, {}, None)
