"""What a flow with transactions knew when somebody deleted what its tasks had saved."""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.driving.job import FlowJob
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, find_offsets
from heliograph.kafka.tail import read_tails
from heliograph.model import TopicPartition
from heliograph.running.positions import offsets_of
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.progress import ProgressStore
from heliograph.saved.runs import RunStore
from heliograph.tables.append import PATIENCE
from heliograph.wire.connect_records import SourceOffset


@dataclass(frozen=True, slots=True)
class Salvage:
    """Positions and runs that are put back where a task has saved nothing newer.

    Taken when the tasks have ended, and put back when they can no longer commit anything.
    """

    offsets: dict[TopicPartition, SourceOffset]
    doubtful: dict[TopicPartition, tuple[TopicPartition, SourceOffset]]
    rows: dict[bytes, bytes]

    @classmethod
    def of(cls, job: FlowJob, runs: RunStore) -> "Salvage":
        """Take what is known. If a task died, it may not have reported its last commit: its positions are doubtful."""
        offsets = offsets_of(job)
        doubtful = {
            p.source: (p.remote, offsets.pop(p.source))
            for p in job.partitions()
            if p.source in offsets and not p.clean and p.identity is not None
        }
        return cls(offsets, doubtful, runs.rows())

    def put_back(
        self,
        target: Cluster,
        saved: Mapping[TopicPartition, SourceOffset],
        store: ProgressStore | GroupProgress,
        runs: RunStore,
    ) -> dict[TopicPartition, SourceOffset]:
        """Save the positions that are missing from `saved`, and return them; both stores have been loaded."""
        runs.fill(self.rows)
        missing = {
            source: at
            for source, at in {**self.offsets, **self._quiet(target)}.items()
            if source not in saved and store.why_unread(source) is None
        }
        store.save(missing, PATIENCE)
        return missing

    def _quiet(self, target: Cluster) -> dict[TopicPartition, SourceOffset]:
        """Return doubtful positions after which the target has nothing, so that they are right."""
        starts = {r: at.downstream for r, at in self.doubtful.values() if at.downstream is not None}
        ends = find_offsets(target, list(starts), LATEST).found
        tails = read_tails(target, {r: at for r, at in starts.items() if r in ends}, ends)
        return {
            source: at
            for source, (remote, at) in self.doubtful.items()
            if remote in tails and not tails[remote].batches
        }
