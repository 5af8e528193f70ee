"""Certificates for tests, made by openssl."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Certificates(NamedTuple):
    """An authority, and one PEM file of chain and key for each of server and client."""

    authority: Path
    server: Path
    client: Path


def make_certificates(folder: Path) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here")
    authority = folder / "ca.pem"
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests"),
        *("-keyout", folder / "ca.key", "-out", authority),
    )
    return Certificates(authority, signed(folder, "server"), signed(folder, "client"))


def signed(folder: Path, name: str, hosts: str = "DNS:localhost,IP:127.0.0.1") -> Path:
    """Sign a certificate by the authority of `folder`, and return a PEM of it and its key."""
    key, request, signed = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
    extensions = folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={hosts}\n")
    _openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", key, "-out", request),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-days", "2", "-extfile", extensions, "-out", signed),
        *("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial"),
    )
    both = folder / f"{name}.pem"
    both.write_text(signed.read_text() + key.read_text())
    return both


def pkcs12(file: Path, pem: Path, password: str) -> Path:
    """Put certificate and key of a PEM file into a PKCS12 store."""
    _openssl("pkcs12", "-export", "-in", pem, "-out", file, "-passout", f"pass:{password}")
    return file


def keytool(*arguments: object) -> None:
    """Run Java's keytool, which makes stores as Java's users have them."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not here")
    command = ["keytool", *map(str, arguments), "-noprompt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def java_stores(folder: Path, made: Certificates, kind: str, password: str) -> tuple[Path, Path]:
    """Return a trust store and a key store of the client as keytool writes them: JKS or PKCS12."""
    trust, keys = folder / f"trust.{kind}", folder / f"keys.{kind}"
    store = ("-storetype", kind, "-storepass", password)
    keytool("-importcert", "-alias", "ca", "-file", made.authority, "-keystore", trust, *store)
    first = pkcs12(folder / f"client.{kind}.p12", made.client, password)
    keytool(
        *("-importkeystore", "-srckeystore", first, "-srcstoretype", "PKCS12"),
        *("-srcstorepass", password, "-destkeystore", keys, "-deststoretype", kind),
        *("-deststorepass", password),
    )
    return trust, keys


def encrypt(key: Path, password: str) -> str:
    """Return a key as PEM that a password opens."""
    return _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}")


def _openssl(*arguments: object) -> str:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, text=True)
    return done.stdout
