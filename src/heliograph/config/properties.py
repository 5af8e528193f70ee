"""Java's properties files, read as Java reads them, each value knowing where it was written.

A `Written` is a plain string to all code except that which reports mistakes: it survives being copied
from mapping to mapping, so the line of the file is still known after all precedence rules.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import javaproperties

from heliograph.config.mistakes import InvalidSetting, UnreadableFile
from heliograph.config.secrets import HIDDEN, is_secret

_LARGEST = 16 << 20
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: the file as the user named it, the line, the key as written.

    What came over REST has no lines: then the line is 0.
    """

    file: str
    line: int
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Written(str):
    """A value together with its origin. Its repr hides what must not be shown."""

    origin: Origin
    secret: bool

    __slots__ = ("origin", "secret")

    def __new__(cls, value: str, origin: Origin, secret: bool = False) -> "Written":
        text = super().__new__(cls, value)
        text.origin = origin
        text.secret = secret or is_secret(origin.key)
        return text

    def __repr__(self) -> str:
        return HIDDEN if self.secret else super().__repr__()

    def __getnewargs__(self) -> tuple[str, Origin, bool]:  # type: ignore[override]  # str's has one
        return str(self), self.origin, self.secret


@dataclass(frozen=True, slots=True)
class Properties:
    """One file's settings in the order of their first appearance, secrets hidden from repr."""

    file: str
    entries: Mapping[str, Written]
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"Properties({self.file}, {len(self.entries)} keys)"


def read_properties(path: Path) -> Properties:
    return parse_properties(read_file(path), str(path))


def parse_properties(content: bytes, file: str) -> Properties:
    """Parse bytes as `java.util.Properties.load` does; of two equal keys the later one wins."""
    entries: dict[str, Written] = {}
    warnings: list[str] = []
    line = 1
    try:
        for element in javaproperties.parse(content):
            if isinstance(element, javaproperties.KeyValue):
                key, origin = element.key, Origin(file, line, element.key)
                _check_text(key + element.value, str(origin))
                if key in entries:
                    before = entries[key].origin.line
                    warnings.append(
                        f"{origin}: {key} was already set in line {before}; this one counts"
                    )
                entries[key] = Written(element.value, origin)
            line += len(_LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as exc:
        reason = f"{exc.escape} is not a character; write \\u and four hex digits, or \\\\ for a backslash"
        raise UnreadableFile(f"{file}:{line}", reason) from None
    return Properties(file, entries, tuple(warnings))


def read_json(path: Path) -> Properties:
    return parse_json(read_file(path), str(path))


def parse_json(content: bytes, file: str) -> Properties:
    """Parse a connector as Connect's REST API takes it: flat, or with `name` and `config`."""
    try:
        text = content.decode()
        top = json.loads(text)
    except json.JSONDecodeError as exc:
        raise UnreadableFile(f"{file}:{exc.lineno}", f"not JSON here ({exc.msg})") from None
    except UnicodeDecodeError as exc:
        raise UnreadableFile(file, f"not UTF-8 at byte {exc.start}") from None
    except (ValueError, RecursionError):
        raise UnreadableFile(file, "it has a number too long or lists too deep") from None
    if not isinstance(top, dict):
        raise UnreadableFile(f"{file}:1", 'a connector is an object {"key": "value", ...}')
    config = top.get("config")
    values = {"name": top["name"]} | config if isinstance(config, dict) and "name" in top else top
    if isinstance(config, dict) and "name" not in top:
        values = config
    entries = {key: _from_json(key, value, file, text) for key, value in values.items()}
    return Properties(file, {key: value for key, value in entries.items() if value is not None})


def properties_of(config: Mapping[str, str], what: str) -> Properties:
    """Return settings that come from no file; `what` says in messages what they belong to."""
    return Properties(what, {k: Written(v, Origin(what, 0, k)) for k, v in config.items()})


def _from_json(key: str, value: Any, file: str, text: str) -> Written | None:
    _check_text(key, file)
    found = re.search(re.escape(json.dumps(key)) + r"\s*:", text)
    line = text.count("\n", 0, found.start()) + 1 if found else 1
    origin = Origin(file, line, key)
    if isinstance(value, str):
        _check_text(value, str(origin))
    match value:
        case None:
            return None
        case bool():
            return Written(str(value).lower(), origin)
        case str() | int() | float():
            return Written(str(value), origin)
        case _:
            raise InvalidSetting(str(origin), key, "{...}", "a text, a number or true/false")


def _check_text(text: str, where: str) -> None:
    """Refuse half a surrogate pair: it can be escaped, but neither sent nor shown."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        escape = f"\\u{ord(text[exc.start]):04x}"
        raise UnreadableFile(where, f"{escape} is half a character; write both halves") from None


def read_file(path: Path) -> bytes:
    """Return what a file holds; a file without an end, such as a device, is read only up to a limit."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as exc:
        raise UnreadableFile(str(path), f"cannot be read ({exc.strerror})") from exc
    if len(content) > _LARGEST:
        raise UnreadableFile(str(path), f"has more than {_LARGEST >> 20} MB")
    return content
