"""What a group's position becomes on the target, and when that is worth a record."""

from collections.abc import Iterable, Mapping

from heliograph.model import TopicPartition
from heliograph.policy.naming import NamingPolicy
from heliograph.wire.mirror_records import Checkpoint

_WRITABLE = ("", "Empty", "Dead")


def downstream_topic(
    topic: str, *, naming: NamingPolicy, source_alias: str, target_alias: str
) -> str:
    """Return what a topic of the source is called on the target, also one that came from there."""
    if naming.topic_source(topic) == target_alias:
        return naming.original_topic(topic)
    return naming.format_remote_topic(source_alias, topic)


def is_news(last: Checkpoint | None, new: Checkpoint) -> bool:
    """Return whether a checkpoint is worth writing after the last one of its group and partition.

    It goes on, or the group itself went back. One that would go back although the group did not is
    only a worse translation.
    """
    return last is None or new.upstream < last.upstream or new.downstream > last.downstream


def is_contradicted(last: Checkpoint, end: int, exact: int | None) -> bool:
    """Return whether a checkpoint tells of a remote topic that is gone.

    Its group's position is `exact` by what was copied, which reaches to the upstream offset `end`; no
    translation of the same topic was ever beyond that.
    """
    return exact is not None and last.upstream < end and last.downstream > exact


def plan_commits(
    wanted: Iterable[Checkpoint], committed: Mapping[TopicPartition, int]
) -> list[Checkpoint]:
    """Return the checkpoints that a group on the target is behind; it is never taken back."""
    return [c for c in wanted if c.downstream > committed.get(c.partition, -1)]


def refusal_to_sync(state: str) -> str | None:
    """Return why a group in `state` on the target is left alone; None where it may be moved.

    A group that is not there has the empty state.
    """
    if state in _WRITABLE:
        return None
    return f"it is in use on the target (state {state})"
