"""What `heliograph top` knows and shows: changed by what the mirror answers and by keys."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

INTERVALS = 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0
_SAMPLES = 120
_EVENTS = 200


class Key(Enum):
    QUIT = "q"
    TOPICS = "p"
    UP = "up"
    DOWN = "down"
    FASTER = "+"
    SLOWER = "-"


_KEYS = {
    b"q": Key.QUIT,
    b"Q": Key.QUIT,
    b"p": Key.TOPICS,
    b"k": Key.UP,
    b"\x1b[A": Key.UP,
    b"\x1bOA": Key.UP,
    b"j": Key.DOWN,
    b"\x1b[B": Key.DOWN,
    b"\x1bOB": Key.DOWN,
    b"+": Key.FASTER,
    b"=": Key.FASTER,
    b"-": Key.SLOWER,
}
_PREFIXES = b"\x1b", b"\x1b[", b"\x1bO"


def split_keys(typed: bytes) -> tuple[list[Key], bytes]:
    """Return the keys in what was typed, and the beginning of one whose rest has not come yet."""
    keys = []
    while typed and typed not in _PREFIXES:
        size = 3 if typed.startswith(_PREFIXES[1:]) else 1
        key = _KEYS.get(typed[:size])
        if key is not None:
            keys.append(key)
        typed = typed[size:]
    return keys, typed


@dataclass(frozen=True, slots=True)
class Look:
    """What the mirror answered: the overview, events since the last look, topics if they were asked for."""

    overview: Mapping[str, Any]
    version: str
    events: tuple[Mapping[str, Any], ...] = ()
    topics: Mapping[str, Any] | None = None
    topics_of: str | None = None


@dataclass(slots=True)
class Board:
    """What is on the screen; `silent_since` and `reason` are set while nobody answers."""

    url: str
    interval: float = 1.0
    look: Look | None = None
    rates: dict[str, deque[float | None]] = field(default_factory=dict)
    events: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    selected: str | None = None
    shows_topics: bool = False
    topics: Mapping[str, Any] | None = None
    silent_since: float | None = None
    reason: str = ""

    @property
    def flows(self) -> list[Mapping[str, Any]]:
        return [] if self.look is None else list(objects(self.look.overview.get("flows")))

    @property
    def topics_of(self) -> str | None:
        """Return the flow whose topics are to be asked for."""
        return self.selected if self.shows_topics else None

    @property
    def lacks_topics(self) -> bool:
        """Tell whether topics are to be shown and were not asked for yet, by somebody who answers."""
        return self.topics_of is not None and self.topics is None and self.silent_since is None

    def marks(self, flow: str) -> bool:
        """Tell whether a flow stands out: of several, the one that keys work on."""
        return flow == self.selected and len(self.rates) > 1

    def take(self, look: Look) -> None:
        """Show what was answered."""
        self.look, self.silent_since, self.reason = look, None, ""
        names = [str(flow.get("flow")) for flow in self.flows]
        self.rates = {name: self.rates.get(name, deque(maxlen=_SAMPLES)) for name in names}
        for name, flow in zip(names, self.flows, strict=True):
            self.rates[name].append(number(flow.get("rate")))
        self.events.extend(look.events)
        if self.selected not in names:
            self.selected = names[0] if names else None
        if look.topics_of == self.topics_of:
            self.topics = look.topics

    def miss(self, reason: str, now: float) -> None:
        """Go on with what is there, and say that nobody answers any more."""
        self.reason = reason
        if self.silent_since is None:
            self.silent_since = now

    def press(self, key: Key) -> None:
        """Do what a key stands for, but for quitting."""
        match key:
            case Key.TOPICS:
                self.shows_topics = not self.shows_topics
                self.topics = None
            case Key.UP | Key.DOWN:
                self._move(1 if key is Key.DOWN else -1)
            case Key.FASTER:
                faster = [its for its in INTERVALS if its < self.interval]
                self.interval = max(faster, default=self.interval)
            case Key.SLOWER:
                slower = [its for its in INTERVALS if its > self.interval]
                self.interval = min(slower, default=self.interval)
            case Key.QUIT:
                pass

    def _move(self, step: int) -> None:
        names = list(self.rates)
        if self.selected in names:
            place = names.index(self.selected) + step
            self.selected = names[min(max(place, 0), len(names) - 1)]
            self.topics = None


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list that came as JSON."""
    for its in value if isinstance(value, list) else ():
        if isinstance(its, dict):
            yield its


def number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]  # it was just looked at
