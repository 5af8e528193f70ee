"""The Spark data source: both ends of a flow's stream. Spark pickles these objects, so they hold text only.

Where it runs: `latestOffset` and `partitions` in one Python process per query, about once per epoch;
`read` and `write` in worker processes, once per slice and epoch, for the epoch's whole length;
`commit` in a planner worker at an epoch's end. The stream's offset is only the number of the epoch:
true positions live on the target cluster.

Most of these processes never read or write, and there are six of them: what only tasks need is imported
where a task needs it, which is worth 20 MB and 0.2 s to each of the others.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from heliograph.dataplane.assignment import Assignment
    from heliograph.dataplane.lease import Lease
    from heliograph.dataplane.writer import SliceWriter

FORMAT = "heliograph"
SQL_SCHEMA = "row binary"  # as chunks.py has it, which tasks alone import
WARM_UP = "warm.up"  # an option: walk every step of an epoch without a flow


class SlicePartition(InputPartition):
    """One slice of one epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)


class MirrorStreamReader(DataSourceStreamReader):
    """Plans epochs, and reads one slice of one."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:
        return {"epoch": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: ARG002
        """Return the epoch after `start`: there is always one more."""
        return {"epoch": (start or self.initialOffset())["epoch"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[SlicePartition]:  # noqa: ARG002
        return [SlicePartition(end["epoch"]) for _ in range(int(self._options["slices"]))]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from heliograph.dataplane.chunks import TICKS  # noqa: PLC0415
        from heliograph.dataplane.reader import SliceReader  # noqa: PLC0415

        if WARM_UP in self._options:
            yield TICKS
            return
        lease = _take_lease(self._options, "reader", partition.value)
        try:
            yield from SliceReader(lease, lease.assignment()).rows()
        finally:
            lease.close()

    def commit(self, end: dict[str, int]) -> None:
        pass


class MirrorStreamWriter(DataSourceStreamArrowWriter):
    """Writes one slice; there is nothing left to commit once its tasks are done."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        if WARM_UP in self._options:
            for _ in iterator:
                pass
            return WriterCommitMessage()
        lease = _take_lease(self._options, "writer", -1)
        try:
            assignment = lease.assignment()
            with closing(_make_writer(lease, assignment)) as writer:
                writer.write(iterator)
        finally:
            lease.close()
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        pass


class MirrorDataSource(DataSource):
    """The format `heliograph`: reads from the source cluster, writes to the target cluster."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SQL_SCHEMA

    def streamReader(self, schema: StructType) -> MirrorStreamReader:  # noqa: ARG002
        return MirrorStreamReader(dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> MirrorStreamWriter:  # noqa: ARG002
        return MirrorStreamWriter(dict(self.options))


def _make_writer(lease: "Lease", assignment: "Assignment") -> "SliceWriter":
    from heliograph.dataplane.placing_writer import PlacingWriter  # noqa: PLC0415
    from heliograph.dataplane.transactional_writer import TransactionalWriter  # noqa: PLC0415
    from heliograph.dataplane.writer import SliceWriter  # noqa: PLC0415

    if assignment.lanes:
        return PlacingWriter(lease, assignment)
    if assignment.ledger is not None:
        return TransactionalWriter(lease, assignment, assignment.ledger)
    return SliceWriter(lease, assignment)


def _take_lease(options: dict[str, str], role: str, epoch: int) -> "Lease":
    from heliograph.dataplane.assignment import Claim  # noqa: PLC0415
    from heliograph.dataplane.lease import Lease  # noqa: PLC0415

    context = TaskContext.get()
    assert context is not None, "Spark calls read and write inside a task"
    claim = Claim(
        flow=options["flow"],
        slice_index=context.partitionId(),
        epoch=epoch,
        task=context.taskAttemptId(),
        role=role,
        secret=options["lease.secret"],
    )
    return Lease((options["lease.host"], int(options["lease.port"])), claim)
