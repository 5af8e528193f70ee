"""What a flow in transactions knew when somebody deleted what its tasks had saved."""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.control.positions import offsets_of
from heliograph.driving.job import FlowJob
from heliograph.flows.group_progress import GroupProgress
from heliograph.flows.progress import ProgressStore
from heliograph.flows.runs import RunStore
from heliograph.kafka.append import PATIENCE
from heliograph.model import TopicPartition
from heliograph.wire.connect_records import SourceOffset


@dataclass(frozen=True, slots=True)
class Salvage:
    """Positions and runs that are put back where a task has saved nothing newer.

    Taken when the tasks have ended, and put back when nothing of theirs can be committed any more.
    """

    offsets: dict[TopicPartition, SourceOffset]
    rows: dict[bytes, bytes]

    @classmethod
    def of(cls, job: FlowJob, runs: RunStore) -> "Salvage":
        """Take what is known for certain: of a partition whose task died, its last commit may not have been told."""
        sure = {p.source for p in job.partitions() if p.clean or p.identity is None}
        offsets = {source: at for source, at in offsets_of(job).items() if source in sure}
        return cls(offsets, runs.rows())

    def put_back(
        self,
        saved: Mapping[TopicPartition, SourceOffset],
        store: ProgressStore | GroupProgress,
        runs: RunStore,
    ) -> dict[TopicPartition, SourceOffset]:
        """Save what is missing beside the positions that are `saved`, and return it; both stores have been loaded."""
        runs.fill(self.rows)
        missing = {
            source: at
            for source, at in self.offsets.items()
            if source not in saved and store.why_unread(source) is None
        }
        store.save(missing, PATIENCE)
        return missing
