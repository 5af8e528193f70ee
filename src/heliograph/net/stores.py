"""Java's key and trust stores: JKS and PKCS12, distinguished by their bytes.

Java opens either under either name. Since version 9 its keytool writes PKCS12 unless configured otherwise,
whatever the file is called. So `ssl.truststore.type=JKS`, the default, says little.
"""

import base64
import ssl
import textwrap
import warnings
from typing import TYPE_CHECKING

from heliograph.net.jks import MAGIC, Chain, Store, Unreadable, read_jks

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

NAMES = ("JKS", "PKCS12")
_SEQUENCE = 0x30  # a PKCS12 is one, in DER
_JCEKS = b"\xce\xce\xce\xce"


def read_store(data: bytes, password: str | None, key_password: str | None = None) -> Store:
    """Read a store; Unreadable says why it cannot be read. A key needs a password."""
    if data.startswith(MAGIC):
        return read_jks(data, password, key_password)
    if data[:1] == bytes([_SEQUENCE]):
        return _read_pkcs12(data, password, key_password)
    if b"-----BEGIN" in data:
        raise Unreadable("it is PEM, not a store of Java's: set its type to PEM")
    if data.startswith(_JCEKS):
        raise Unreadable("it is a JCEKS: make a PKCS12 of it with keytool -importkeystore")
    raise Unreadable("it is neither JKS nor PKCS12")


def trusted_pem(store: Store) -> str:
    return "".join(map(ssl.DER_cert_to_PEM_cert, store.trusted))


def chain_pem(chain: Chain) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(chain.key).decode(), 64))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    return "".join(map(ssl.DER_cert_to_PEM_cert, chain.certificates)) + key


def _read_pkcs12(data: bytes, password: str | None, key_password: str | None) -> Store:
    # Imported here: such stores are rare, and every worker process would pay for the import.
    try:
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as exc:
        raise Unreadable(
            "a PKCS12 is read by the Python package cryptography, which is not here"
        ) from exc

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old ciphers; whoever made the store chose them
            found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as exc:
        raise Unreadable("it is encrypted in a way that is not supported") from exc
    except ValueError as exc:
        raise Unreadable("its password is wrong, or it is damaged") from exc
    own = () if found.cert is None else (found.cert.certificate,)
    others = [entry.certificate for entry in found.additional_certs]
    trusted = tuple(each.public_bytes(Encoding.DER) for each in (*own, *others))
    chain = None
    if found.key is not None and own and key_password is not None:
        key = found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        path = _path(own[0], others)
        chain = Chain(key, tuple(each.public_bytes(Encoding.DER) for each in path))
    return Store(trusted, chain)


def _path(own: "Certificate", others: "list[Certificate]") -> "list[Certificate]":
    """Return the certificate chain from our own upwards: a store may hold others too."""
    path = [own]
    while above := [
        other for other in others if other.subject == path[-1].issuer and other not in path
    ]:
        path.append(above[0])
    return path
