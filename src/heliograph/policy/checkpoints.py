"""What a group's position becomes on the target, and when that is worth a record."""

from collections.abc import Iterable, Mapping

from heliograph.model import TopicPartition
from heliograph.policy.filters import NameFilter
from heliograph.policy.naming import NamingPolicy
from heliograph.wire.mirror_records import Checkpoint

_WRITABLE = ("", "Empty", "Dead")
_CONSUMERS = ("consumer", "")  # a group of type "" has only committed


def downstream_topic(
    topic: str, *, naming: NamingPolicy, source_alias: str, target_alias: str
) -> str:
    """Return the name on the target of a topic of the source, also of one that came from the target."""
    if naming.topic_source(topic) == target_alias:
        return naming.original_topic(topic)
    return naming.format_remote_topic(source_alias, topic)


def is_news(last: Checkpoint | None, new: Checkpoint) -> bool:
    """Return whether a checkpoint is worth writing after the last one of its group and partition.

    It is if it advances, or if the group itself went back. A checkpoint that would go back although the
    group did not is only a worse translation.
    """
    return last is None or new.upstream < last.upstream or new.downstream > last.downstream


def is_contradicted(last: Checkpoint, end: int, exact: int | None) -> bool:
    """Return whether a checkpoint refers to a remote topic that is gone.

    Its group's position is `exact` by what was copied, which reaches to the upstream offset `end`; no
    translation for the same topic was ever beyond `exact`.
    """
    return exact is not None and last.upstream < end and last.downstream > exact


def refusal_to_checkpoint(group: str, protocol: str, names: NameFilter) -> str | None:
    """Return why no checkpoints are written for a group of the source; None if they may be."""
    if protocol not in _CONSUMERS:
        return f"it is a group of {protocol}, not of consumers"
    if names.accepts(group):
        return None
    pattern = names.excluded_by(group)
    return "groups does not name it" if pattern is None else f"groups.exclude has {pattern}"


def plan_commits(
    wanted: Iterable[Checkpoint], committed: Mapping[TopicPartition, int]
) -> list[Checkpoint]:
    """Return the checkpoints that a group on the target is behind; a group is never moved back."""
    return [c for c in wanted if c.downstream > committed.get(c.partition, -1)]


def refusal_to_sync(state: str) -> str | None:
    """Return why a group in `state` on the target is not moved; None if it may be moved.

    A group that does not exist has the empty state.
    """
    if state in _WRITABLE:
        return None
    return f"it is in use on the target (state {state})"
