"""Which topics and groups a flow selects, by MirrorMaker 2's lists of Java regular expressions.

A list is joined with `|` and must match a whole name; an empty list matches nothing. Syntax that Python
writes differently is translated; syntax that Python cannot express is refused rather than misread.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from heliograph.errors import ConfigError
from heliograph.policy.naming import NamingPolicy

_TOKEN = re.compile(
    r"""
      \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\[pP]\{(?P<property>\w+)\}
    | \(\?(?P<flags>[a-zA-Z-]+)\)
    | (?P<group>\(\?<(?=[a-zA-Z]))
    | (?P<other>\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PROPERTIES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "ASCII": r"\x00-\x7f",
    "Space": r" \t\n\x0b\f\r",
}
_ESCAPES = {r"\z": r"\Z", r"\h": r"[ \t\xa0]", r"\e": r"\x1b"}


class NameFilter:
    """Accepts the names that `include` matches and `exclude` does not."""

    __slots__ = ("_exclude", "_exclude_patterns", "_include")

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = _compile(include)
        self._exclude = _compile(exclude)
        self._exclude_patterns = tuple(exclude)

    def accepts(self, name: str) -> bool:
        return _matches(self._include, name) and not _matches(self._exclude, name)

    def excluded_by(self, name: str) -> str | None:
        """Return the item of `exclude` that matches a name; None if none does."""
        if not _matches(self._exclude, name):
            return None
        for pattern in self._exclude_patterns:
            with suppress(ConfigError):  # half of a group that another item closes
                if _matches(_compile([pattern]), name):
                    return pattern
        return ",".join(self._exclude_patterns)


class Skip(Enum):
    """Why a topic of the source is not copied."""

    INTERNAL = "internal"
    CYCLE = "it came from the target"
    FILTERED = "the filters leave it out"


def reason_to_skip(
    topic: str,
    *,
    accepts: Callable[[str], bool],
    naming: NamingPolicy,
    target_alias: str,
    heartbeats: bool,
) -> Skip | None:
    """Return why a topic of the source is not copied; None if it is. Heartbeats may bypass the filter."""
    if naming.is_internal_topic(topic):
        return Skip.INTERNAL
    if is_cycle(topic, naming=naming, target_alias=target_alias):
        return Skip.CYCLE
    if accepts(topic) or (heartbeats and naming.is_heartbeats_topic(topic)):
        return None
    return Skip.FILTERED


def is_cycle(topic: str, *, naming: NamingPolicy, target_alias: str) -> bool:
    """Return whether a topic has been on the target already, so that a copy would loop."""
    source = naming.topic_source(topic)
    while source is not None:
        if source == target_alias:
            return True
        upstream = naming.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic, source = upstream, naming.topic_source(upstream)
    return False


def _compile(patterns: Sequence[str]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    # Joined before it is compiled, as in Java: a group may open in one item and close in another.
    joined = "|".join(patterns)
    try:
        return re.compile(_translate(joined), re.ASCII)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ConfigError(
            f"the pattern list {','.join(patterns)} cannot be used ({exc}). "
            "Write it with what Java's and Python's regular expressions share."
        ) from exc


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None


def _translate(pattern: str) -> str:
    """Return a Java regular expression as Python writes it."""
    out: list[str] = []
    # Per open group, how many flag groups to close with it: Java's `(?i)` lasts until its group ends.
    flagged = [0]
    in_class = False
    for token in _TOKEN.finditer(pattern):
        quoted, named, other = token["quoted"], token["property"], token["other"]
        if quoted is not None:
            out.append(re.escape(quoted))
        elif named is not None:
            out.append(_property(named, token[0][1] == "P", in_class))
        elif in_class:
            out.append(_class_part(token[0], out))
            in_class = token[0] != "]"
        elif token["flags"] is not None:
            out.append(f"(?{token['flags']}:")
            flagged[-1] += 1
        elif token["group"] is not None:
            out.append("(?P<")
            flagged.append(0)
        else:
            in_class = other == "["
            out.append(_outside_class(other, flagged))
    return "".join(out) + ")" * flagged[0]


def _outside_class(other: str, flagged: list[int]) -> str:
    if other == "(":
        flagged.append(0)
    elif other == ")" and len(flagged) > 1:
        return ")" * (flagged.pop() + 1)
    return _ESCAPES.get(other, other)


def _class_part(part: str, before: list[str]) -> str:
    # `[` is a union in Java and `&&` an intersection; Python reserves `--`, `||` and `~~`; a `]` that
    # comes first is an error in one and a member in the other.
    empty = part == "]" and (before[-1] == "[" or before[-2:] == ["[", "^"])
    if empty or part in ("[", "&") or before[-1] == part == "-":
        raise re.error(f"{part} within a class")
    return f"\\{part}" if part in ("|", "~") else part


def _property(name: str, negated: bool, in_class: bool) -> str:
    chars = _PROPERTIES.get(name)
    if chars is None or (negated and in_class):
        raise re.error(f"the property {name}")
    return chars if in_class else f"[{'^' if negated else ''}{chars}]"
