"""A client's certificates in real handshakes over loopback."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.errors import ConfigError
from heliograph.model import Tls
from heliograph.net.tls import tls_context
from tests.web.certificates import (
    Certificates,
    encrypt,
    java_stores,
    keytool,
    make_certificates,
    pkcs12,
    signed,
)

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
        ({"keystore_location": "/k.bks", "keystore_type": "BKS"}, "ssl.keystore.type=BKS: use one"),
        ({"protocols": ("TLSv9",)}, "ssl.enabled.protocols=TLSv9: use some of TLSv1, "),
        ({"cipher_suites": ("TLS_NO_WITH_NO",)}, "ssl.cipher.suites: none of them is known"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_key(
    inline: Tls, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tls_context(replace(inline, **change))  # type: ignore[arg-type]  # whatever a case changes


def test_nothing_of_the_key_is_left_behind(
    inline: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls_context(inline)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("told", ["JKS", "PKCS12"])
def test_a_store_of_java_is_read_under_either_name(
    greet: Greet, certificates: Certificates, tmp_path: Path, kind: str, told: str
) -> None:
    trust, keys = java_stores(tmp_path, certificates, kind, "open sesame")
    tls = Tls(
        truststore_location=str(trust),
        truststore_type=told,
        truststore_password="open sesame",
        keystore_location=str(keys),
        keystore_type=told,
        keystore_password="open sesame",
    )
    assert greet(tls) == "client"


def test_a_key_in_a_store_may_have_a_password_of_its_own(
    greet: Greet, certificates: Certificates, tmp_path: Path
) -> None:
    trust, keys = java_stores(tmp_path, certificates, "JKS", "open sesame")
    keytool(
        *("-keypasswd", "-alias", "1", "-keystore", keys, "-storetype", "JKS"),
        *("-storepass", "open sesame", "-keypass", "open sesame", "-new", "swordfish"),
    )
    tls = Tls(
        truststore_location=str(trust),  # without a password: its hash is not looked at
        keystore_location=str(keys),
        keystore_password="open sesame",
    )
    assert greet(replace(tls, key_password="swordfish")) == "client"
    with pytest.raises(ConfigError, match="the password of its key is wrong") as told:
        tls_context(tls)
    assert "open sesame" not in str(told.value)
    assert str(keys) in str(told.value)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_store_that_cannot_be_opened_is_told_by_key_and_file(
    certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    trust, _ = java_stores(tmp_path, certificates, kind, "open sesame")
    named = rf"ssl.truststore.location: {trust} is not usable \(its password is wrong"
    with pytest.raises(ConfigError, match=named) as told:
        tls_context(Tls(truststore_location=str(trust), truststore_password="swordfish"))
    assert "swordfish" not in str(told.value)
    trust.write_bytes(trust.read_bytes()[:-30])
    with pytest.raises(ConfigError, match="is damaged"):
        tls_context(Tls(truststore_location=str(trust), truststore_password="open sesame"))
    trust.write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="it is neither JKS nor PKCS12"):
        tls_context(Tls(truststore_location=str(trust)))
    with pytest.raises(ConfigError, match="it is PEM, not a store of Java's"):
        tls_context(Tls(truststore_location=str(certificates.authority)))


def test_certificates_that_change_on_disk_are_picked_up(
    greet: Greet, certificates: Certificates, tmp_path: Path
) -> None:
    keys = pkcs12(tmp_path / "keys.p12", certificates.client, "pw")
    tls = Tls(
        truststore_type="PEM",
        truststore_location=str(certificates.authority),
        keystore_location=str(keys),
        keystore_password="pw",
    )
    assert greet(tls) == "client"
    assert tls_context(tls) is tls_context(tls)

    renewed = signed(certificates.authority.parent, "renewed")
    pkcs12(tmp_path / "new.p12", renewed, "pw").replace(keys)
    assert greet(tls) == "renewed"

    keys.write_bytes(b"half of a sto")
    assert greet(tls) == "renewed"
    keys.unlink()
    assert greet(tls) == "renewed"
    pkcs12(tmp_path / "newer.p12", certificates.client, "pw").replace(keys)
    assert greet(tls) == "client"


def test_versions_and_suites_are_those_of_the_settings(inline: Tls) -> None:
    old = tls_context(replace(inline, protocols=("TLSv1.2",)))
    assert (old.minimum_version, old.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    suites = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA256")
    chosen = tls_context(replace(inline, cipher_suites=suites))
    assert chosen.maximum_version == ssl.TLSVersion.TLSv1_2
    offered = [each["name"] for each in chosen.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert offered == ["ECDHE-RSA-AES128-GCM-SHA256", "AES256-SHA256"]
    newest = tls_context(replace(inline, cipher_suites=("TLS_AES_256_GCM_SHA384",)))
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3


def test_no_file_is_left_open_when_a_store_was_read(
    certificates: Certificates, tmp_path: Path
) -> None:
    keys = pkcs12(tmp_path / "keys.p12", certificates.client, "pw")
    tls_context(Tls(keystore_location=str(keys), keystore_password="pw"))
    assert [file for file in open_files() if "memfd" in file or str(tmp_path) in file] == []


def open_files() -> list[str]:
    """Return what this process has open, as far as it still has when it is looked at."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(file.readlink()))
    return found
