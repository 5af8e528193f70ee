"""A property declared once: read it, check it and document it from there."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from heliograph.config.mistakes import InvalidSetting, MissingSetting
from heliograph.config.properties import Written
from heliograph.config.secrets import HIDDEN, is_secret

_SHOWN = 1000

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)


class Part(StrEnum):
    """The component that reads a key."""

    SOURCE = "source"
    CHECKPOINT = "checkpoint"
    HEARTBEAT = "heartbeat"
    CLIENT = "client"
    CONSUMER = "consumer"
    WORKER = "worker"
    DRIVER = "driver"
    OURS = "ours"


CONNECTORS = (Part.SOURCE, Part.CHECKPOINT, Part.HEARTBEAT)


class NotAllowed(Exception):
    """Raised by a kind's `parse`; says what is allowed, never what was given."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A type as Kafka names it, narrowed to what a key takes."""

    name: str
    parse: Callable[[str], T_co]


class Importance(StrEnum):
    """How much a key matters, as Connect shows it."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class Heading:
    """Where Connect's own user interfaces show a key."""

    group: str
    order: int
    width: str
    display_name: str


class Field(Generic[T]):
    """One property, declared as an attribute of a class of settings. A required one has a default that is never used.

    On the class, the attribute is the declaration; on settings that were read, it is the value.
    """

    def __init__(
        self,
        name: str,
        kind: Kind[T],
        default: T,
        doc: str,
        *,
        by: tuple[Part, ...] = (),
        required: bool = False,
        importance: Importance = LOW,
        heading: Heading | None = None,
    ) -> None:
        """Declare it; `by` are its readers, if they differ from those of its class."""
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.by = by
        self.required = required
        self.importance = importance
        self.heading = heading

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: "Settings", owner: type) -> T: ...

    def __get__(self, instance: "Settings | None", owner: type) -> Self | T:
        """Return the declaration, or the value that was read."""
        return self if instance is None else instance.value_of(self)

    def __set__(self, instance: "Settings", value: T) -> None:
        raise AttributeError(f"{self.name} is as it was read")

    def __repr__(self) -> str:
        return f"Field({self.name})"

    @property
    def secret(self) -> bool:
        return self.kind.name == "PASSWORD" or is_secret(self.name)

    def read(self, props: Mapping[str, str], where: str = "") -> T:
        """Return the typed value of this key; `where` names the file if the key is missing."""
        raw = props.get(self.name)
        if raw is None:
            if self.required:
                raise MissingSetting(
                    where, self.name, self.doc[0].lower() + self.doc[1:].rstrip(".")
                )
            return self.default
        try:
            return self.kind.parse(raw)
        except NotAllowed as exc:
            raise invalid(self.name, raw, str(exc)) from None  # the cause could show a secret


class Settings:
    """The properties that one component reads, typed. A subclass declares them, and which components read them."""

    FIELDS: ClassVar[tuple[Field[Any], ...]] = ()

    def __init_subclass__(cls, *, by: tuple[Part, ...]) -> None:
        cls.FIELDS = tuple(each for each in vars(cls).values() if isinstance(each, Field))
        for declared in cls.FIELDS:
            declared.by = declared.by or by

    def __init__(
        self,
        props: Mapping[str, str],
        where: str = "",
        instead: Mapping[Field[Any], Any] | None = None,
    ) -> None:
        """Read and check all except those with a value `instead`; `where` names the file if a key is missing."""
        given = instead or {}
        self._values: dict[Field[Any], Any] = {
            declared: given[declared] if declared in given else declared.read(props, where)
            for declared in self.FIELDS
        }

    def value_of(self, declared: Field[T]) -> T:
        value: T = self._values[declared]
        return value

    def replaced(self, **values: object) -> Self:
        """Return a copy with other values, by the names of their attributes."""
        named = {vars(type(self))[name]: value for name, value in values.items()}
        return type(self)({}, instead=self._values | named)

    def __repr__(self) -> str:
        return type(self).__name__  # not the values, which may be secrets

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # settings are compared, and are no keys


def invalid(key: str, raw: str, allowed: str) -> InvalidSetting:
    """Make the error for a value, with its origin if it has one and without it if it is secret."""
    secret = is_secret(key)
    where = ""
    if isinstance(raw, Written):
        where, key, secret = str(raw.origin), raw.origin.key, secret or raw.secret
    return InvalidSetting(where, key, HIDDEN if secret else _shortened(str(raw).strip()), allowed)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_on(switch: bool, interval: timedelta) -> bool:
    """Whether something is done periodically; MM2 treats a negative interval as off."""
    return switch and interval > timedelta(0)


def split_list(text: str) -> tuple[str, ...]:
    """Split as Kafka splits a LIST: at commas, without the blanks around, empty items kept."""
    trimmed = text.strip()
    return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()


def whole(name: str, lowest: int, highest: int, *, but: tuple[int, ...] = ()) -> Kind[int]:
    """Make a kind of whole numbers within bounds, with exceptions below the lowest."""
    also = "".join(f" (or {number})" for number in but)

    def parse(text: str) -> int:
        trimmed = text.strip()
        if re.fullmatch(r"[+-]?[0-9]{1,19}", trimmed):
            number = int(trimmed)
            if lowest <= number <= highest or number in but:
                return number
        raise NotAllowed(f"a whole number from {lowest} to {highest}{also}")

    return Kind(name, parse)


def one_of(*allowed: str) -> Kind[str]:
    """Make a kind of fixed words, case-insensitive."""

    def parse(text: str) -> str:
        for word in allowed:
            if word.lower() == text.strip().lower():
                return word
        raise NotAllowed("one of " + ", ".join(allowed))

    return Kind("STRING", parse)


def choice(words: type[E]) -> Kind[E]:
    """Make a kind of the words of an enum, case-insensitive."""
    parse_word = one_of(*(str(word.value) for word in words)).parse
    return Kind("STRING", lambda text: words(parse_word(text)))


def some_of(*allowed: str) -> Kind[tuple[str, ...]]:
    """Make a kind of lists of fixed words."""

    def parse(text: str) -> tuple[str, ...]:
        items = split_list(text)
        if all(item in allowed for item in items):
            return items
        raise NotAllowed("a comma-separated list of " + ", ".join(allowed))

    return Kind("LIST", parse)


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise NotAllowed("true or false")


def _number(text: str) -> float:
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip()):
        return float(text)
    raise NotAllowed("a number, such as 0.8")


def _patterns(text: str) -> tuple[str, ...]:
    items = split_list(text)
    for item in items:
        try:
            re.compile(item)
        except re.error as exc:
            raise NotAllowed(
                f"every comma-separated item is a regular expression, "
                f"and the one at position {items.index(item) + 1} is not ({exc.msg})"
            ) from None
    return items


def _seconds(text: str) -> timedelta:
    try:
        seconds = _LONG.parse(text)
    except NotAllowed:
        seconds = 0
    if seconds == 0 or seconds > 10**9:
        raise NotAllowed("a whole number of seconds above 0 (or -1: never)")
    return timedelta(seconds=max(seconds, -1))


def _milliseconds(text: str) -> timedelta:
    return timedelta(milliseconds=_MILLISECONDS.parse(text))


_LONG = whole("LONG", -(2**63), 2**63 - 1)
_MILLISECONDS = whole("LONG", 0, 10**12)

STRING = Kind("STRING", str)  # Kafka does not trim a STRING, and a separator may be a blank
CLASS = Kind("CLASS", lambda text: str(text).strip())
PASSWORD = Kind("PASSWORD", str)
BOOLEAN = Kind("BOOLEAN", _boolean)
DOUBLE = Kind("DOUBLE", _number)
LIST = Kind("LIST", split_list)
PATTERNS = Kind("LIST", _patterns)
INT = whole("INT", -(2**31), 2**31 - 1)
SHORT = whole("SHORT", -(2**15), 2**15 - 1)
LONG = _LONG
COUNT = whole("INT", 1, 2**31 - 1)
SECONDS = Kind("LONG", _seconds)
MILLISECONDS = Kind("LONG", _milliseconds)
REPLICATION_FACTOR = whole("SHORT", 1, 2**15 - 1, but=(-1,))
