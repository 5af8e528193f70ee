"""What was written and what was read, message by message, from what the programs print."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_LINE = re.compile(r"^(\S+)-(\d+)@(\d+) message (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Message:
    """A numbered message, and where it was read."""

    topic: str
    partition: int
    offset: int
    number: int

    def __str__(self) -> str:
        return f"message {self.number} at {self.topic}-{self.partition}@{self.offset}"


def messages_in(printed: str) -> list[Message]:
    """Return the messages that a program printed, in its order; a line that is not whole is none."""
    found = _LINE.findall(printed)
    return [Message(topic, int(p), int(offset), int(n)) for topic, p, offset, n in found]


@dataclass(frozen=True, slots=True)
class Account:
    """Messages 0 to `written`, and what was read of them, place by place in order of time."""

    written: int
    read: Mapping[str, Sequence[Message]]

    @property
    def lost(self) -> int:
        return len(set(range(self.written)) - set(self._numbers()))

    @property
    def repeated(self) -> int:
        numbers = self._numbers()
        return len(numbers) - len(set(numbers))

    @property
    def unknown(self) -> int:
        """Messages that nobody wrote."""
        return len(set(self._numbers()) - set(range(self.written)))

    @property
    def out_of_order(self) -> int:
        """Messages that came after a later one of their partition."""
        return sum(_steps_back(messages) for messages in self.read.values())

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.repeated or self.unknown or self.out_of_order)

    def __str__(self) -> str:
        read = ", ".join(
            f"{len(messages)} read on {place}" for place, messages in self.read.items()
        )
        unknown = f", {self.unknown} that nobody wrote" if self.unknown else ""
        return (
            f"{self.written} written, {read}: {self.lost} lost, {self.repeated} repeated, "
            f"{self.out_of_order} out of order{unknown}"
        )

    def _numbers(self) -> list[int]:
        return [message.number for messages in self.read.values() for message in messages]


def _steps_back(messages: Iterable[Message]) -> int:
    by_partition: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        by_partition.setdefault((message.topic, message.partition), []).append(message.number)
    return sum(later < earlier for its in by_partition.values() for earlier, later in pairwise(its))
