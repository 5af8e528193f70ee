"""The last log lines of this process, kept for a page, with a number each."""

import logging
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

_KEPT = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    number: int
    time: str
    level: str
    message: str


class Events(logging.Handler):
    """Remembers the newest lines of heliograph's own log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._count += 1
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        self._kept.append(Event(self._count, when, record.levelname, record.getMessage()))

    def last(self) -> int:
        """Return the number of the newest."""
        return self._count

    def after(self, number: int) -> list[Event]:
        return [event for event in list(self._kept) if event.number > number]
