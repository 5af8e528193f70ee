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
    return Certificates(authority, _signed(folder, "server"), _signed(folder, "client"))


def _signed(folder: Path, name: str) -> Path:
    key, request, signed = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
    extensions = folder / f"{name}.ext"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
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


def encrypt(key: Path, password: str) -> str:
    """Return a key as PEM that a password opens."""
    return _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}")


def _openssl(*arguments: object) -> str:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, text=True)
    return done.stdout
