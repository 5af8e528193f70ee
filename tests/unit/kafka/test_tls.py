"""A client's certificates in real handshakes over loopback."""

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.errors import ConfigError
from heliograph.kafka.tls import tls_context
from heliograph.model import Tls
from tests.web.certificates import Certificates, encrypt, make_certificates

BEGIN_KEY = "-----BEGIN PRIVATE KEY-----"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def inline(certificates: Certificates) -> Tls:
    """What `ssl.*` holds where the PEM stands in the settings themselves."""
    chain, key = certificates.client.read_text().split(BEGIN_KEY)
    return Tls(
        truststore_type="PEM",
        truststore_certificates=certificates.authority.read_text(),
        keystore_type="PEM",
        keystore_key=BEGIN_KEY + key,
        keystore_certificate_chain=chain,
    )


Greet = Callable[[Tls], str]


@pytest.fixture
def greet(certificates: Certificates) -> Greet:
    """Shake hands with a server that wants a certificate, and return the name that it saw."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.server)
    server.load_verify_locations(certificates.authority)
    server.verify_mode = ssl.CERT_REQUIRED

    def answer(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        with accepted:
            try:
                shaken = server.wrap_socket(accepted, server_side=True)
            except ssl.SSLError:
                return  # the client hears of it
            with shaken:
                subject: Any = (shaken.getpeercert() or {})["subject"]
                shaken.sendall(subject[0][0][1].encode())

    def call(tls: Tls) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=answer, args=[listening], daemon=True)
            thread.start()
            plain = socket.create_connection(listening.getsockname(), timeout=10)
            with plain, tls_context(tls).wrap_socket(plain, server_hostname="localhost") as client:
                name = client.recv(100).decode()
            thread.join(10)
        return name

    return call


def test_a_certificate_and_its_key_may_stand_in_the_settings(greet: Greet, inline: Tls) -> None:
    assert greet(inline) == "client"


def test_they_may_stand_on_one_line(greet: Greet, inline: Tls) -> None:
    def one_line(pem: str | None) -> str:
        return " ".join((pem or "").split("\n"))

    flat = replace(
        inline,
        truststore_certificates=one_line(inline.truststore_certificates),
        keystore_key=one_line(inline.keystore_key),
        keystore_certificate_chain=one_line(inline.keystore_certificate_chain),
    )
    assert greet(flat) == "client"


def test_a_password_opens_the_key(greet: Greet, inline: Tls, certificates: Certificates) -> None:
    locked = replace(inline, keystore_key=encrypt(certificates.client, "open sesame"))
    assert greet(replace(locked, key_password="open sesame")) == "client"
    for wrong in ("open", None):
        with pytest.raises(ConfigError, match=r"ssl.keystore: not usable"):
            tls_context(replace(locked, key_password=wrong))


def test_they_may_stand_in_files(greet: Greet, certificates: Certificates) -> None:
    tls = Tls(
        truststore_type="PEM",
        truststore_location=str(certificates.authority),
        keystore_type="PEM",
        keystore_location=str(certificates.client),
    )
    assert greet(tls) == "client"


def test_without_a_certificate_who_wants_one_hangs_up(greet: Greet, inline: Tls) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        greet(replace(inline, keystore_key=None, keystore_certificate_chain=None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keystore_key": "nothing"}, "ssl.keystore: not usable"),
        ({"truststore_certificates": "nothing"}, "ssl.truststore.certificates: not"),
        ({"truststore_certificates": None, "truststore_location": "/none"}, "not readable"),
        ({"keystore_location": "/k.jks", "keystore_type": "JKS"}, "set ssl.keystore.type=PEM"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_key(
    inline: Tls, change: dict[str, str | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tls_context(replace(inline, **change))  # type: ignore[arg-type]  # whatever a case changes


def test_nothing_of_the_key_is_left_behind(
    inline: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls_context(inline)
    assert list(tmp_path.iterdir()) == []
