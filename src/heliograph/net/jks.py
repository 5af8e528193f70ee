"""Java's own key store format, JKS, which needs no library to read.

    magic FEEDFEED | version i32 | count i32 | entries | SHA-1 of all before

An entry is a tag (1 a key with its chain, 2 a trusted certificate), an alias, a time, and then the
encrypted key and its chain, or the certificate. The hash is keyed with the store's password; a key is
encrypted with its own password, by a stream of SHA-1s (Sun's algorithm, 1.3.6.1.4.1.42.2.17.1.1).
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
_PEPPER = b"Mighty Aphrodite"
_SUN = bytes.fromhex("060a2b060104012a02110101")
_HASH = 20
_TRUSTED = 2
_KEY = 1


class Unreadable(Exception):
    """A store that cannot be opened; the message says why and reveals no content."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A key, as unencrypted PKCS8 in DER, and its certificates, the key's own first."""

    key: bytes = field(repr=False)
    certificates: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """The content of a store, in DER; `chain` is that of its first key."""

    trusted: tuple[bytes, ...]
    chain: Chain | None = None


def read_jks(data: bytes, password: str | None, key_password: str | None) -> Store:
    """Read a store; without a password its hash is not checked, as in Java.

    Keys are not decrypted if there is no `key_password`: they are not needed in a trust store.
    """
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _PEPPER + data[:-_HASH]).digest()  # noqa: S324
        if not hmac.compare_digest(expected, data[-_HASH:]):
            raise Unreadable("its password is wrong, or it is damaged")
    try:
        return _read_entries(_Reader(data[: -_HASH or None]), key_password)
    except (struct.error, UnicodeDecodeError, IndexError) as exc:
        raise Unreadable("it is damaged") from exc


def _read_entries(reader: "_Reader", key_password: str | None) -> Store:
    _, version, count = reader.numbers(">4sii")
    if version not in (1, 2):
        raise Unreadable(f"it is of version {version}, and 1 and 2 are known")
    trusted: list[bytes] = []
    chain: Chain | None = None
    for _ in range(count):
        (tag,) = reader.numbers(">i")
        reader.text()
        reader.numbers(">q")
        if tag == _TRUSTED:
            trusted.append(reader.certificate(version))
        elif tag == _KEY:
            encrypted = reader.block()
            (length,) = reader.numbers(">i")
            certificates = tuple(reader.certificate(version) for _ in range(length))
            trusted += certificates[:1]
            if chain is None and key_password is not None:
                chain = Chain(_decrypt(encrypted, key_password), certificates)
        else:
            raise Unreadable("it holds entries of an unknown kind")
    return Store(tuple(trusted), chain)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def text(self) -> str:
        (size,) = self.numbers(">H")
        return self._take(size).decode()

    def block(self) -> bytes:
        (size,) = self.numbers(">i")
        return self._take(size)

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # its type, X.509
        return self.block()

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise Unreadable("it is damaged")
        self._at += size
        return self._data[self._at - size : self._at]


def _decrypt(info: bytes, password: str) -> bytes:
    """Return the PKCS8 that an EncryptedPrivateKeyInfo holds."""
    algorithm, encrypted = _children(_children(info)[0])[:2]
    if not algorithm.startswith(_SUN):
        raise Unreadable("its key is encrypted in a way that is not Java's own")
    salt, hidden, check = encrypted[:_HASH], encrypted[_HASH:-_HASH], encrypted[-_HASH:]
    secret = _utf16(password)
    stream = b""
    last = salt
    while len(stream) < len(hidden):
        last = hashlib.sha1(secret + last).digest()  # noqa: S324 - the format's own
        stream += last
    key = bytes(left ^ right for left, right in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):  # noqa: S324
        raise Unreadable("the password of its key is wrong")
    return key


def _children(der: bytes) -> list[bytes]:
    """Return the contents of consecutive values."""
    found = []
    at = 0
    while at < len(der):
        size = der[at + 1]
        at += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(der[at : at + width], "big")
            at += width
        found.append(der[at : at + size])
        at += size
    return found


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
