"""What goes wrong, and when exactly: "before the third produce is looked at", "no fetch is answered until released"."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from lab.inprocess.messages import Api, Asked


class Fate(Enum):
    """What becomes of a request."""

    ANSWERED = "answered"
    UNHEARD = "unheard"  # the connection ends, and nothing was done
    UNANSWERED = "unanswered"  # it is done, and the connection ends instead of an answer
    HELD = "held"  # it is done, and answered once the event is released


@dataclass(eq=False)
class Event:
    """Something that happens to the requests number `first` to `first + times - 1` of those that match.

    `before` runs in the broker's thread before such a request is looked at, `after` before it is answered.
    """

    api: Api
    first: int = 1
    times: int = 1
    node: int | None = None
    fate: Fate = Fate.ANSWERED
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    matched: int = 0
    is_released: bool = False
    happened: threading.Event = field(default_factory=threading.Event)

    def meets(self, asked: Asked) -> bool:
        if asked.api is not self.api or self.node not in (None, asked.node):
            return False
        self.matched += 1
        return self.first <= self.matched < self.first + self.times


class Script:
    """The events to come, and the requests that there were."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.asked: list[Asked] = []

    def meet(self, asked: Asked) -> list[Event]:
        """Return the events that a request meets."""
        self.asked.append(asked)
        return [event for event in self.events if event.meets(asked)]
