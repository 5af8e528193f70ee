import base64
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.config.access import Entry, Role, Token, hash_password, make_token, put_entry
from heliograph.config.listeners import parse_listen, read_listener
from heliograph.errors import ConfigError
from heliograph.web.access import (
    Access,
    Login,
    is_foreign,
    needed_role,
    parse_authorization,
)
from heliograph.web.app import make_app
from heliograph.web.server import Server, make_server
from tests.fakes import InMemoryHerder
from tests.golden.connect.story import HEARTBEAT
from tests.web.certificates import Certificates, encrypt, make_certificates, pkcs12, signed

Serve = Callable[..., Server]
PASSWORDS = {"vera": "vera's password", "otto": "otto's password", "fay": "fay's password"}
ROLES = {"vera": Role.VIEW, "otto": Role.OPERATE, "fay": Role.FAILOVER}


@pytest.fixture
def serve(herder: InMemoryHerder) -> Iterator[Serve]:
    """Starts servers by listener and settings, and stops them."""
    begun: list[Server] = []

    def start(listen: str = "127.0.0.1:0", /, **props: str) -> Server:
        settings = {key.replace("_", "."): value for key, value in props.items()}
        server = make_server(make_app(herder), parse_listen(listen), settings)
        server.start()
        begun.append(server)
        return server

    yield start
    for server in begun:
        server.stop()


@pytest.fixture(scope="module")
def known() -> list[Entry]:
    return [Entry(ROLES[name], name, hash_password(word)) for name, word in PASSWORDS.items()]


@pytest.fixture
def file(tmp_path: Path, known: list[Entry]) -> Path:
    path = tmp_path / "access"
    for entry in known:
        put_entry(path, entry)
    return path


@pytest.fixture
def gated(serve: Serve, file: Path) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serve(rest_access_file=str(file)).url) as client:
        yield client


def login(name: str) -> tuple[str, str]:
    return name, PASSWORDS[name]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_without_a_login_only_health_is_told(gated: httpx.Client) -> None:
    assert gated.get("/health").status_code == 200
    assert gated.head("/health/").status_code == 200
    for path in ("/", "/connectors", "/openapi.json", "/api/flows", "/nothing", "/healthy"):
        answer = gated.get(path)
        assert answer.status_code == 401, path
        assert answer.json()["error_code"] == 401
        challenges = answer.headers.get_list("www-authenticate")
        assert [challenge.split()[0] for challenge in challenges] == ["Basic", "Bearer"]
    assert gated.post("/health").status_code == 401


@pytest.mark.parametrize("name", PASSWORDS)
def test_everybody_who_is_known_may_look(gated: httpx.Client, name: str) -> None:
    assert gated.get("/connectors", auth=login(name)).status_code == 200
    assert gated.get("/admin/loggers", auth=login(name)).status_code == 200


def test_who_may_only_look_is_told_which_role_a_change_needs(
    gated: httpx.Client, herder: InMemoryHerder
) -> None:
    body = {"name": "hbc", "config": HEARTBEAT}
    refused = gated.post("/connectors", json=body, auth=login("vera"))
    assert refused.status_code == 403
    assert refused.json() == {
        "error_code": 403,
        "message": "this needs the role operate, and vera has view.",
    }
    assert not herder.kept

    assert gated.post("/connectors", json=body, auth=login("otto")).status_code == 201
    assert gated.put("/connectors/hbc/pause", auth=login("vera")).status_code == 403
    assert gated.put("/connectors/hbc/pause", auth=login("fay")).status_code == 202


def test_failing_over_needs_its_own_role(gated: httpx.Client) -> None:
    for path in ("/api/failover", "/api/failover/", "/api/failover/A/begin"):
        refused = gated.post(path, auth=login("otto"))
        assert refused.status_code == 403
        assert "role failover" in refused.json()["message"]
        assert gated.post(path, auth=login("fay")).status_code in (404, 405)


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/connectors", Role.VIEW),
        ("HEAD", "/api/failover", Role.VIEW),
        ("GET", "/api/clusters/A/messages", Role.OPERATE),
        ("HEAD", "/api/clusters/A\nB/messages", Role.OPERATE),
        ("GET", "/api/clusters/A/topics/messages", Role.VIEW),
        ("PUT", "/connectors/a/stop", Role.OPERATE),
        ("PUT", "/connector-plugins/a/config/validate", Role.OPERATE),
        ("PATCH", "/connectors/a/offsets", Role.OPERATE),
        ("DELETE", "/connectors/a", Role.OPERATE),
        ("POST", "/api/failovers", Role.OPERATE),
        ("POST", "/api/failover", Role.FAILOVER),
        ("ANYTHING", "/api/failover/x", Role.FAILOVER),
    ],
)
def test_a_role_is_needed_by_what_a_request_does(method: str, path: str, role: Role) -> None:
    assert needed_role(method, path) is role


@pytest.mark.parametrize(
    "header",
    [
        "Basic " + base64.b64encode(b"vera:wrong password").decode(),
        "Basic " + base64.b64encode(b"nobody:vera's password").decode(),
        "Basic " + base64.b64encode(b"vera").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic ???",
        "Basic",
        "Bearer",
        "Bearer vera",
        "Digest username=vera",
        "",
    ],
)
def test_a_wrong_login_is_a_401_however_it_is_wrong(gated: httpx.Client, header: str) -> None:
    assert gated.get("/connectors", headers={"Authorization": header}).status_code == 401


def test_a_login_may_hold_any_character() -> None:
    text = base64.b64encode("vera:a:b ü".encode()).decode()
    assert parse_authorization(f"basic {text}") == Login("vera", "a:b ü")
    assert "a:b" not in repr(Login("vera", "a:b"))


def test_a_token_opens_as_a_password_does(gated: httpx.Client, file: Path) -> None:
    token, hashed = make_token()
    put_entry(file, Entry(Role.OPERATE, "ci", hashed))

    assert gated.get("/connectors", headers=bearer(token)).status_code == 200
    assert gated.get("/connectors", headers=bearer(token + "x")).status_code == 401
    assert gated.get("/connectors", auth=("ci", token)).status_code == 401
    assert token not in file.read_text()


def test_a_file_that_changed_counts_at_once(
    gated: httpx.Client, file: Path, known: list[Entry]
) -> None:
    assert gated.get("/", auth=login("vera")).status_code == 200
    put_entry(file, Entry(Role.VIEW, "vera", hash_password("another password")))
    assert gated.get("/", auth=login("vera")).status_code == 401
    assert gated.get("/", auth=("vera", "another password")).status_code == 200

    file.write_text(f"# nobody but otto\n\n{known[1]}\n")
    assert gated.get("/", auth=("vera", "another password")).status_code == 401
    assert gated.get("/", auth=login("otto")).status_code == 200


def test_a_file_that_became_unusable_lets_nobody_in_until_it_is_right(
    gated: httpx.Client, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = file.read_text()
    assert gated.get("/", auth=login("otto")).status_code == 200
    for spoil in (
        lambda: file.write_text("otto\n"),
        lambda: file.chmod(0o644),
        file.unlink,
    ):
        file.write_text(good)
        file.chmod(0o600)
        assert gated.get("/", auth=login("otto")).status_code == 200
        spoil()
        caplog.clear()
        answers = [gated.get("/", auth=login("otto")) for _ in range(3)]
        assert {answer.status_code for answer in answers} == {503}
        assert str(file) not in answers[0].text
        told = [record.getMessage() for record in caplog.records if "nobody can" in record.message]
        assert len(told) == 1
        assert gated.get("/health").status_code == 200


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660])
def test_a_file_that_others_can_get_at_is_refused_at_start(
    file: Path, serve: Serve, mode: int
) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        serve(rest_access_file=str(file))


def test_a_file_that_is_missing_or_empty_is_refused_at_start(tmp_path: Path, serve: Serve) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        serve(rest_access_file=str(tmp_path / "none"))
    (tmp_path / "empty").touch(0o600)
    with pytest.raises(ConfigError, match="nobody stands in it"):
        serve(rest_access_file=str(tmp_path / "empty"))


def test_a_login_that_was_right_is_not_hashed_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(file)
    right = Login(*login("vera"))
    assert access.recall(right) is None
    found = access.check(right)
    assert found is not None
    monkeypatch.setattr("hashlib.scrypt", None)
    assert access.recall(right) == found
    assert access.recall(Login("vera", "wrong")) is None
    assert access.recall(Login("vera", "")) is None


def test_many_wrong_logins_do_not_hold_up_who_is_known(
    gated: httpx.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.web.access._CHECKS_WAITING", 4)
    assert gated.get("/", auth=login("vera")).status_code == 200
    with ThreadPoolExecutor(20) as flood, httpx.Client(base_url=gated.base_url) as attacker:
        wrong = [
            flood.submit(lambda n: attacker.get("/", auth=("vera", f"guess {n}"), timeout=60), n)
            for n in range(40)
        ]
        for _ in range(5):
            assert gated.get("/health", timeout=5).status_code == 200
            assert gated.get("/", auth=login("vera"), timeout=5).status_code == 200
        codes = {future.result().status_code for future in wrong}
    assert codes == {401, 429}
    told = [record for record in caplog.records if "was refused" in record.message]
    assert len(told) <= 2


def test_a_page_of_another_site_is_turned_away(
    serve: Serve, herder: InMemoryHerder, gated: httpx.Client
) -> None:
    open_to_all = serve()
    with httpx.Client(base_url=open_to_all.url) as client:
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://["):
            headers = {"Origin": origin}
            refused = client.post(
                "/connectors", json={"name": "x", "config": HEARTBEAT}, headers=headers
            )
            assert refused.status_code == 403
            assert "access.control.allow.origin" in refused.json()["message"]
            assert client.get("/connectors", headers=headers).status_code == 403
        assert not herder.kept
        own = client.get("/connectors", headers={"Origin": open_to_all.url})
        assert own.status_code == 200
        assert not [header for header in own.headers if header.startswith("access-control")]
    stolen = gated.get("/", auth=login("fay"), headers={"Origin": "http://evil.example"})
    assert stolen.status_code == 403


def test_a_site_that_is_named_may_ask(serve: Serve) -> None:
    url = serve(
        access_control_allow_origin="https://ui.example, https://*.corp.example",
        access_control_allow_methods="GET,PUT",
    ).url
    for origin in ("https://ui.example", "https://a.corp.example"):
        asked = httpx.get(f"{url}/connectors", headers={"Origin": origin})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == origin
        before = httpx.options(
            f"{url}/connectors/a/config",
            headers={"Origin": origin, "Access-Control-Request-Method": "PUT"},
        )
        assert before.status_code == 200
        assert before.headers["access-control-allow-methods"] == "GET, PUT"
        assert "access-control-allow-credentials" not in before.headers
    for origin in ("https://ui.example.evil", "https://uiXexample", "http://corp.example"):
        asked = httpx.get(f"{url}/connectors", headers={"Origin": origin})
        assert asked.status_code == 403
        assert "access-control-allow-origin" not in asked.headers


def test_every_site_may_ask_where_a_star_says_so(serve: Serve) -> None:
    url = serve(access_control_allow_origin="*").url
    asked = httpx.get(f"{url}/connectors", headers={"Origin": "https://any.example"})
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("origin", "host", "foreign"),
    [
        ("http://a:8083", "a:8083", False),
        ("https://A", "a:443", False),
        ("http://[::1]:8083", "[::1]:8083", False),
        ("http://a:8083", "a:8084", True),
        ("http://a:8083@evil", "a:8083", True),
        ("http://a", "", True),
        ("null", "a", True),
        ("", "", True),
    ],
)
def test_a_page_is_foreign_by_host_and_port(origin: str, host: str, foreign: bool) -> None:
    assert is_foreign(origin, host) is foreign


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


HTTPS = "https://127.0.0.1:0"


def keys(certificates: Certificates, **more: str) -> dict[str, str]:
    return {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(certificates.server),
        **{f"listeners.https.ssl.{key.replace('_', '.')}": value for key, value in more.items()},
    }


def test_https_answers_who_trusts_its_certificate(
    serve: Serve, certificates: Certificates, file: Path
) -> None:
    url = serve(HTTPS, **keys(certificates), rest_access_file=str(file)).url
    assert url.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=certificates.authority)
    with httpx.Client(base_url=url, verify=trusting) as client:
        assert client.get("/connectors").status_code == 401
        body = {"name": "hbc", "config": HEARTBEAT}
        made = client.post("/connectors", json=body, auth=login("otto"))
        assert made.headers["location"] == f"{url}/connectors/hbc"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_https_takes_its_certificate_from_the_settings_themselves(
    serve: Serve, certificates: Certificates
) -> None:
    text = certificates.server.read_text()
    at = text.index("-----BEGIN PRIVATE KEY")
    props = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": text[:at].replace("\n", " "),
        "ssl.keystore.key": text[at:].replace("\n", ""),
    }
    url = serve(HTTPS, **props).url
    trusting = ssl.create_default_context(cafile=certificates.authority)
    assert httpx.get(f"{url}/health", verify=trusting).status_code == 200


def test_a_client_without_a_certificate_is_turned_away_where_one_is_required(
    serve: Serve, certificates: Certificates
) -> None:
    trust = {"truststore_type": "PEM", "truststore_location": str(certificates.authority)}
    urls = {
        auth: serve(HTTPS, **keys(certificates, client_auth=auth, **trust)).url
        for auth in ("required", "requested")
    }
    trusting = ssl.create_default_context(cafile=certificates.authority)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{urls['required']}/health", verify=trusting)
    assert httpx.get(f"{urls['requested']}/health", verify=trusting).status_code == 200
    trusting.load_cert_chain(certificates.client)
    assert httpx.get(f"{urls['required']}/health", verify=trusting).status_code == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keystore_type": "JKS"}, "not usable (it is PEM, not a store of Java's"),
        ({"keystore_location": "/nowhere.pem"}, "not readable (no such file or directory)"),
        ({"keystore_location": __file__}, "not usable"),
        ({"client_auth": "required"}, "ssl.truststore.location is missing"),
        ({"client_auth": "always"}, "one of required, requested, none"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_told_before_anything_listens(
    serve: Serve, certificates: Certificates, change: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        serve(HTTPS, **keys(certificates, **change))
    assert message in str(caught.value)


def test_the_key_of_https_may_be_encrypted(
    serve: Serve, certificates: Certificates, tmp_path: Path
) -> None:
    text = certificates.server.read_text()
    at = text.index("-----BEGIN PRIVATE KEY")
    server = tmp_path / "server.pem"
    server.write_text(text[:at] + encrypt(certificates.server, "open sesame"))
    found = certificates._replace(server=server)
    serve(HTTPS, **keys(found, key_password="open sesame"))
    for wrong in ({"key_password": "guess"}, {}):
        with pytest.raises(ConfigError, match="Check the PEM and its password"):
            serve(HTTPS, **keys(found, **wrong))


def test_a_renewed_certificate_is_shown_without_a_restart(
    serve: Serve, certificates: Certificates, tmp_path: Path
) -> None:
    store = pkcs12(tmp_path / "server.p12", certificates.server, "pw")
    found = keys(certificates._replace(server=store), keystore_password="pw")
    url = serve(HTTPS, **found | {"listeners.https.ssl.keystore.type": "PKCS12"}).url
    trusting = ssl.create_default_context(cafile=certificates.authority)
    address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))

    def shown() -> str:
        with (
            socket.create_connection(address, timeout=10) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            subject: Any = (client.getpeercert() or {})["subject"]
            return str(subject[0][0][1])

    assert shown() == "server"
    renewed = signed(certificates.authority.parent, "renewed")
    pkcs12(tmp_path / "new.p12", renewed, "pw").replace(store)
    assert shown() == "renewed"


def test_https_needs_a_certificate(serve: Serve) -> None:
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.keystore\.location is missing"):
        serve(HTTPS)


@pytest.mark.parametrize(
    ("listen", "with_file", "warning"),
    [
        ("127.0.0.1:0", False, None),
        ("localhost:0", False, None),
        ("[::1]:0", False, None),
        ("0.0.0.0:0", False, "no login is asked for; set rest.access.file"),
        ("connect-1:0", False, "no login is asked for; set rest.access.file"),
        ("0.0.0.0:0", True, "unencrypted; listen at https://"),
        ("127.0.0.1:0", True, None),
    ],
)
def test_an_open_door_is_told_in_one_sentence(
    file: Path, caplog: pytest.LogCaptureFixture, listen: str, with_file: bool, warning: str | None
) -> None:
    props = {"rest.access.file": str(file)} if with_file else {}
    with caplog.at_level(logging.WARNING):
        make_server(make_app(InMemoryHerder()), parse_listen(listen), props)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (warning is not None)
    assert warning is None or warning in told[0]


def test_who_relied_on_a_java_extension_for_logins_is_told_that_none_are_asked_for(
    herder: InMemoryHerder, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
    props = {"rest.extension.classes": java}
    make_server(make_app(herder), parse_listen("127.0.0.1:0"), props)
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith("no login is asked for")
    assert told.endswith("set rest.access.file.")
    caplog.clear()
    props["rest.access.file"] = str(file)
    make_server(make_app(herder), parse_listen("127.0.0.1:0"), props)
    assert not caplog.records


def test_https_with_logins_may_be_open_to_the_world(
    herder: InMemoryHerder,
    certificates: Certificates,
    file: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    props = {"rest.access.file": str(file), **keys(certificates)}
    make_server(make_app(herder), parse_listen("https://0.0.0.0:0"), props)
    assert not caplog.records


def test_an_entry_keeps_the_owners_mode_and_the_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "access"
    first = Entry(Role.VIEW, "a", Token(os.urandom(32)))
    assert not put_entry(path, first)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(f"# the team\n{first}\n")
    path.chmod(0o640)
    second = Entry(Role.OPERATE, "a", Token(os.urandom(32)))
    assert put_entry(path, second)
    assert path.read_text() == f"# the team\n{second}\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.iterdir()] == ["access"]


@pytest.mark.parametrize("character", ["%0A", "%0D", "%00", "%7F", "%C2%85"])
@pytest.mark.parametrize("path", ["/api/clusters/A/messages{}", "/api/clu{}sters", "/health{}"])
def test_a_control_character_in_a_path_is_refused_before_anything_else(
    serve: Serve, gated: httpx.Client, character: str, path: str
) -> None:
    address = path.format(character)
    for answer in (
        gated.get(address, auth=login("vera")),
        gated.get(address),
        httpx.get(serve().url + address),
    ):
        assert answer.status_code == 400, address
        assert "control character" in answer.json()["message"]


def test_a_newline_behind_a_path_does_not_turn_a_viewer_into_an_operator(
    gated: httpx.Client,
) -> None:
    path = "/api/clusters/A/messages"
    assert gated.get(path, auth=login("vera")).status_code == 403
    assert gated.get(f"{path}%0A", auth=login("vera")).status_code == 400


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8083", "127.0.0.1:1", "[::1]:8083", "localhost.", "", "me.home"],
)
def test_a_listener_of_this_machine_is_asked_by_its_own_names(
    herder: InMemoryHerder, host: str
) -> None:
    listener = read_listener(
        {"listeners": "http://127.0.0.1:0", "rest.advertised.host.name": "me.home"}
    )
    server = make_server(make_app(herder), listener, {})
    server.start()
    try:
        assert httpx.get(f"{server.url}/connectors", headers={"Host": host}).status_code == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example:8083", "[", "localhost@evil"]
)
def test_a_name_of_somebody_else_that_leads_to_this_machine_is_refused(
    serve: Serve, host: str
) -> None:
    answer = httpx.get(f"{serve().url}/connectors", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["message"].startswith(f"{host} is not a name of this listener")


def test_where_others_come_or_log_in_any_name_of_the_listener_will_do(
    serve: Serve, gated: httpx.Client
) -> None:
    named = {"Host": "mirror.example"}
    assert gated.get("/connectors", headers=named, auth=login("vera")).status_code == 200
    port = serve("0.0.0.0:0").url.rsplit(":", 1)[1]
    answer = httpx.get(f"http://127.0.0.1:{port}/connectors", headers=named)
    assert answer.status_code == 200
