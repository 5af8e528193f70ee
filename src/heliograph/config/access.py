"""Who may use the REST API: a file with one line per entry, which only its owner can read.

    role:name:scrypt$14$8$1$SALT$HASH      a password; log2 of the cost, block size, lanes, then Base64
    role:name:sha256$HASH                  a bearer token; it is random and long, so a plain hash is enough

Empty lines and lines that begin with # are ignored.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from heliograph.config.mistakes import UnreadableFile
from heliograph.errors import ConfigError

_LOG_COST, _BLOCK, _LANES = 14, 8, 1  # 16 MB and some 60 ms for one check
_MAX_LOG_COST, _MAX_BLOCK, _MAX_LANES = 17, 16, 4
_SALT_BYTES, _HASH_BYTES = 16, 32
_NAME = re.compile(r"[^\s:#\x00-\x1f\x7f][^\s:\x00-\x1f\x7f]{0,63}")
_MIN_PASSWORD = 8
_NOT_ALLOWED = stat.S_IWGRP | stat.S_IRWXO


class Role(IntEnum):
    """What a user may do; a higher role may do all that a lower one may."""

    VIEW = 1
    OPERATE = 2
    FAILOVER = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Password:
    """A salted scrypt hash."""

    log_cost: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    def fits(self, given: str) -> bool:
        """Return whether that is the password; this is slow, so do not call it on an event loop."""
        memory = 256 * self.block * ((1 << self.log_cost) + self.lanes + 2)
        found = hashlib.scrypt(
            given.encode(),
            salt=self.salt,
            n=1 << self.log_cost,
            r=self.block,
            p=self.lanes,
            maxmem=memory,
            dklen=len(self.digest),
        )
        return hmac.compare_digest(found, self.digest)

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt${self.log_cost}${self.block}${self.lanes}${salt}${digest}"


@dataclass(frozen=True, slots=True)
class Token:
    """The hash of a random token."""

    digest: bytes

    def fits(self, given: str) -> bool:
        return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), self.digest)

    def __str__(self) -> str:
        return f"sha256${base64.b64encode(self.digest).decode()}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file."""

    role: Role
    name: str
    proof: Password | Token

    def __str__(self) -> str:
        return f"{self.role}:{self.name}:{self.proof}"


def parse_role(text: str) -> Role:
    for role in Role:
        if str(role) == text.strip().lower():
            return role
    raise ConfigError(f"{text[:40]}: a role is one of {', '.join(map(str, Role))}.")


def hash_password(password: str) -> Password:
    """Return a new salted hash; a password that is too short is a mistake."""
    if len(password) < _MIN_PASSWORD:
        raise ConfigError(f"the password is too short: take at least {_MIN_PASSWORD} characters.")
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << _LOG_COST,
        r=_BLOCK,
        p=_LANES,
        maxmem=256 * _BLOCK * (1 << _LOG_COST),
        dklen=_HASH_BYTES,
    )
    return Password(_LOG_COST, _BLOCK, _LANES, salt, digest)


def make_token() -> tuple[str, Token]:
    """Return a new random token and its hash."""
    token = secrets.token_urlsafe(_HASH_BYTES)
    return token, Token(hashlib.sha256(token.encode()).digest())


def parse_entries(text: str, file: str) -> tuple[Entry, ...]:
    """Return the entries of a file; one name has at most one password and one token."""
    found: dict[tuple[str, type], Entry] = {}
    for number, line in _lines(text):
        entry = _entry(line, f"{file}:{number}")
        key = entry.name, type(entry.proof)
        if key in found:
            raise UnreadableFile(f"{file}:{number}", f"{entry.name} stands there twice; remove one")
        found[key] = entry
    return tuple(found.values())


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Return the entries of a file that nobody else can read."""
    try:
        with path.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read()
    except OSError as exc:
        raise UnreadableFile(str(path), f"cannot be read ({exc.strerror})") from exc
    if stat.S_IMODE(mode) & _NOT_ALLOWED:
        raise ConfigError(f"{path}: others than its owner can get at it. Do chmod 600 {path}.")
    try:
        return parse_entries(content.decode(), str(path))
    except UnicodeDecodeError as exc:
        raise UnreadableFile(str(path), f"not UTF-8 at byte {exc.start}") from None


def put_entry(path: Path, entry: Entry) -> bool:
    """Write an entry in place of one of the same name and kind, else at the end; return whether it replaced one."""
    if not _NAME.fullmatch(entry.name):
        raise ConfigError(
            f"{entry.name}: a name has up to 64 characters, and no blank, no colon and no # at its start."
        )
    exists = path.exists()
    before = read_entries(path) if exists else ()
    text = path.read_text() if exists else ""
    same = [e for e in before if (e.name, type(e.proof)) == (entry.name, type(entry.proof))]
    kept = [line for line in text.splitlines() if line.strip() not in map(str, same)]
    _replace(path, "".join(f"{line}\n" for line in (*kept, entry)))
    return bool(same)


def remove_entries(path: Path, name: str, kind: type[Password | Token] | None = None) -> int:
    """Remove all entries of a name, or those of one kind; return how many there were."""
    gone = [e for e in read_entries(path) if e.name == name and isinstance(e.proof, kind or object)]
    if gone:
        kept = [
            line for line in path.read_text().splitlines() if line.strip() not in map(str, gone)
        ]
        _replace(path, "".join(f"{line}\n" for line in kept))
    return len(gone)


def _replace(path: Path, text: str) -> None:
    """Write a file atomically, so that no reader sees half of it; it keeps its owner and mode."""
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            if path.exists():
                was = path.stat()
                os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), was.st_uid, was.st_gid)
        Path(beside).replace(path)
    except OSError as exc:
        raise UnreadableFile(str(path), f"cannot be written ({exc.strerror})") from exc


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _entry(line: str, where: str) -> Entry:
    role, _, rest = line.partition(":")
    name, _, proof = rest.partition(":")
    if not _NAME.fullmatch(name):
        raise UnreadableFile(where, "not role:name:hash; write it with `heliograph access add`")
    try:
        return Entry(parse_role(role), name, _proof(proof))
    except (ValueError, binascii.Error):
        reason = f"{name} has no hash that is known; write it with `heliograph access add`"
        raise UnreadableFile(where, reason) from None
    except ConfigError as exc:
        raise UnreadableFile(where, str(exc).rstrip(".")) from None


def _proof(text: str) -> Password | Token:
    match text.split("$"):
        case ["sha256", digest]:
            token = Token(base64.b64decode(digest, validate=True))
            if len(token.digest) == _HASH_BYTES:
                return token
        case ["scrypt", log_cost, block, lanes, salt, digest]:
            password = Password(
                int(log_cost),
                int(block),
                int(lanes),
                base64.b64decode(salt, validate=True),
                base64.b64decode(digest, validate=True),
            )
            if _is_sound(password):
                return password
        case _:
            pass
    raise ValueError


def _is_sound(password: Password) -> bool:
    return (
        1 <= password.log_cost <= min(_MAX_LOG_COST, 16 * password.block - 1)
        and 1 <= password.block <= _MAX_BLOCK
        and 1 <= password.lanes <= _MAX_LANES
        and len(password.salt) >= _SALT_BYTES
        and len(password.digest) >= _HASH_BYTES
    )
