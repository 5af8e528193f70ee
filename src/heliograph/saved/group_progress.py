"""The positions of a flow, kept where MirrorMaker 1 kept them: as a group's committed offsets on the source."""

from collections.abc import Mapping
from datetime import timedelta

from heliograph.errors import MirrorError
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed, list_groups
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import refusal_to_sync
from heliograph.tables.append import PATIENCE
from heliograph.tables.author import Author
from heliograph.wire.connect_records import SourceOffset


class GroupUnusable(MirrorError):
    """A group that cannot keep a flow's positions."""

    def __init__(self, group: str, cluster: str, why: str) -> None:
        super().__init__(group, cluster, why)
        self.group = group
        self.cluster = cluster
        self.why = why

    def __str__(self) -> str:
        return (
            f"group {self.group} on {self.cluster} cannot keep positions ({self.why}). "
            "Stop whatever else consumes with this group.id, such as a MirrorMaker 1."
        )


class GroupProgress:
    """The positions of one flow in a group without members; only what changed is committed."""

    def __init__(self, source: Cluster, group: str) -> None:
        self._source = source
        self._group = group
        self._saved: dict[TopicPartition, int] = {}

    def ensure(self) -> None:
        """Do nothing: a group exists as soon as it has committed."""

    def topics(self) -> list[str]:
        """Return the topics that positions are kept in: none."""
        return []

    def sign_as(self, author: Author) -> None:
        """Do nothing: a group's offsets are not signed."""

    def restore(self, within: timedelta) -> bool:
        """Return whether what was saved was deleted: never, because a commit recreates a deleted group."""
        del within
        return False

    @property
    def is_whole(self) -> bool:
        """Whether all saved positions were read: a group's are read together."""
        return True

    def why_unread(self, partition: TopicPartition) -> str | None:
        """Return None: it is always known whether a position of a partition is saved."""
        del partition
        return None

    def load(self, barred: Mapping[int, str] | None = None) -> dict[TopicPartition, SourceOffset]:
        """Return what the group committed; a group with members is in use elsewhere and is refused."""
        del barred  # a group has no partitions
        listed = list_groups(self._source).get(self._group)
        if listed is not None and refusal_to_sync(listed.state) is not None:
            raise self._unusable(f"it has members and is {listed.state}")
        committed, unread = fetch_committed(self._source, [self._group])
        for why in unread.values():
            raise self._unusable(why)
        return {
            partition: SourceOffset(its.offset)
            for partition, its in committed[self._group].items()
            if its.offset >= 0
        }

    def save_each(
        self, offsets: Mapping[TopicPartition, SourceOffset], within: timedelta
    ) -> dict[TopicPartition, str]:
        """Do as `save`: a group's offsets are saved together."""
        self.save(offsets, within)
        return {}

    def save(
        self, offsets: Mapping[TopicPartition, SourceOffset], within: timedelta = PATIENCE
    ) -> None:
        """Commit `offsets`; return when the source has them."""
        changed = {p: o.upstream for p, o in offsets.items() if self._saved.get(p) != o.upstream}
        if not changed:
            return
        wanted = {partition: Committed(at, "") for partition, at in changed.items()}
        refused = commit_offsets(self._source, self._group, wanted, within)
        self._saved.update({p: at for p, at in changed.items() if p not in refused})
        for partition, why in sorted(refused.items()):
            raise self._unusable(f"{partition}: {why}")

    def _unusable(self, why: str) -> GroupUnusable:
        return GroupUnusable(self._group, self._source.endpoint.cluster, why)
