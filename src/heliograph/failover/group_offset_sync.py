"""Moving groups on the target to their checkpoints, from outside the mirror: seed 003's MM2GroupOffsetSync.

It reads only the target: the checkpoints that a mirror, heliograph or MirrorMaker 2, has written there.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from heliograph.client import MirrorClient, Offsets, client_endpoint
from heliograph.errors import NotMirrored
from heliograph.flows.group_sync import move_group, plan_group_sync
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.wire.mirror_records import Checkpoint

_SHOWN = 5
_JAVA_CONSTANT = re.compile(r"([A-Z][A-Z_]*)_CONFIG")
_UPSTREAM_UNKNOWN = -1


class Result(Enum):
    """The outcome for a group."""

    MOVED = "moved"
    IN_STEP = "in step"
    LEFT_ALONE = "left alone"
    UNKNOWN = "without checkpoints"


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What was done for a group, and why not more."""

    group: str
    result: Result
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    why: str = ""

    @property
    def is_good(self) -> bool:
        return self.result in (Result.MOVED, Result.IN_STEP)

    def __str__(self) -> str:
        if self.result is Result.MOVED:
            places = [f"{p} to {offset}" for p, offset in sorted(self.moved.items())]
            more = len(places) - _SHOWN
            shown = ", ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            rest = f"; not all, because {self.why}" if self.why else ""
            return f"group {self.group} moved on {len(places)} partitions: {shown}{rest}"
        if self.result is Result.IN_STEP:
            return f"group {self.group} is where its checkpoints say, or further on"
        return f"group {self.group} is {self.result.value}, because {self.why}"


class GroupOffsetSync:
    """Moves some groups of one source on the cluster that it is mirrored to; not thread-safe."""

    def __init__(self, properties: Mapping[str, str], source: str, groups: Iterable[str]) -> None:
        """Take the target's client properties, as a MirrorClient does; open no connection yet."""
        self._source = source
        self._groups = tuple(dict.fromkeys(groups))
        self._client = MirrorClient.from_properties(properties)
        self._target = Cluster(client_endpoint(properties, "admin."))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with closing(self._client), closing(self._target):
            pass

    def sync(self) -> list[GroupOutcome]:
        """Move every group that is behind its checkpoints and has no members on the target."""
        try:
            known = self._client.remote_groups(self._source)
        except NotMirrored as exc:
            return [GroupOutcome(group, Result.UNKNOWN, why=str(exc)) for group in self._groups]
        checkpoints = {
            group: _checkpoints(group, known[group]) for group in self._groups if group in known
        }
        plan = plan_group_sync(self._target, checkpoints)
        outcomes = []
        for group in self._groups:
            why = plan.skipped.get(group) or plan.unread.get(group)
            if group not in checkpoints:
                outcomes.append(
                    GroupOutcome(group, Result.UNKNOWN, why=_no_checkpoint(self._source))
                )
            elif why is not None:
                outcomes.append(GroupOutcome(group, Result.LEFT_ALONE, why=why))
            else:
                outcomes.append(self._move(group, plan.behind.get(group, ())))
        return outcomes

    def _move(self, group: str, behind: Iterable[Checkpoint]) -> GroupOutcome:
        wanted = {c.partition: c.downstream for c in behind}
        if not wanted:
            return GroupOutcome(group, Result.IN_STEP)
        refused = move_group(self._target, group, behind)
        moved = {p: offset for p, offset in wanted.items() if p not in refused}
        why = "; ".join(dict.fromkeys(refused.values()))
        return GroupOutcome(group, Result.MOVED if moved else Result.LEFT_ALONE, moved, why)


def client_properties(written: Mapping[str, str]) -> dict[str, str]:
    """Return a consumer's properties; Amazon's sample uses the names of Java constants as keys."""
    spelt = {
        match[1].lower().replace("_", "."): value
        for key, value in written.items()
        if (match := _JAVA_CONSTANT.fullmatch(key))
    }
    return {**spelt, **{key: str(value) for key, value in written.items()}}


def _checkpoints(group: str, offsets: Offsets) -> dict[TopicPartition, Checkpoint]:
    return {
        partition: Checkpoint(group, partition, _UPSTREAM_UNKNOWN, place.offset, place.metadata)
        for partition, place in offsets.items()
    }


def _no_checkpoint(source: str) -> str:
    return (
        f"no checkpoint of it from {source} is here yet: has it committed there, do `groups` and "
        "`topics` of the mirror name it and what it reads, and does the mirror run?"
    )
