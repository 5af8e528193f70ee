"""The Spark job of a verify: groups of partition pairs become tasks, findings come back as rows.

The plan holds endpoints with their passwords. It travels inside the pickled class of the data source,
because options are shown in plans and logs.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from heliograph.errors import MirrorError
from heliograph.policy.audit_streams import Findings
from heliograph.recovery.verify_pairs import Ends, PartitionPair, compare_pairs
from heliograph.recovery.verify_report import findings_from_dict, findings_to_dict

FORMAT = "heliograph-verify"

_GROUPS_PER_SLOT = 4
OnProgress = Callable[[int], None]


class JobFailed(MirrorError):
    """Spark could not run the comparison."""

    exit_code = 2

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark could not run verify: {self.reason}. Nothing was proved; run it again."


class VerifyReader(DataSourceReader):
    """Called by Spark: `partitions` once in a planner process, `read` once per task in a worker."""

    def __init__(
        self, ends: Ends, groups: list[tuple[PartitionPair, ...]], progress: tuple[str, int]
    ) -> None:
        self._ends = ends
        self._groups = groups
        self._progress = progress

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(group) for group in range(len(self._groups))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, str]]:
        """Yield group, place in the group and findings of every pair; blocks while brokers are read."""
        group = partition.value
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as speaker:

            def tell(records: int) -> None:
                with suppress(OSError):  # nobody depends on a progress bar
                    speaker.sendto(b"%d" % records, self._progress)

            found = compare_pairs(self._ends, self._groups[group], tell)
            for place, (_, findings) in enumerate(found):
                yield group, place, json.dumps(findings_to_dict(findings))


def run_job(
    session: SparkSession, ends: Ends, pairs: Sequence[PartitionPair], on_progress: OnProgress
) -> list[tuple[PartitionPair, Findings]]:
    """Return what every pair comes to."""
    slots = session.sparkContext.defaultParallelism
    groups = group_pairs(pairs, slots * _GROUPS_PER_SLOT)
    host = session.conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    with _listening(host, on_progress) as progress:
        session.dataSource.register(_source_for(ends, groups, progress))
        try:
            rows = session.read.format(FORMAT).load().collect()
        except PySparkException as exc:
            raise JobFailed(_last_line(str(exc))) from exc
    return [
        (groups[row["group"]][row["place"]], findings_from_dict(json.loads(row["findings"])))
        for row in rows
    ]


def group_pairs(pairs: Sequence[PartitionPair], at_most: int) -> list[tuple[PartitionPair, ...]]:
    """Return the pairs in groups of about equal size, largest pairs first."""
    groups: list[list[PartitionPair]] = [[] for _ in range(min(at_most, len(pairs)))]
    sizes = [0] * len(groups)
    for pair in sorted(pairs, key=lambda pair: -pair.span):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(pair)
        sizes[smallest] += pair.span + 1
    return [tuple(group) for group in groups]


def _source_for(
    ends: Ends, groups: list[tuple[PartitionPair, ...]], progress: tuple[str, int]
) -> type[DataSource]:
    class VerifyDataSource(DataSource):
        """Made per run, so that Spark pickles it by value, the plan with it."""

        @classmethod
        def name(cls) -> str:
            return FORMAT

        def schema(self) -> str:
            return "group int, place int, findings string"

        def reader(self, schema: StructType) -> VerifyReader:  # noqa: ARG002
            return VerifyReader(ends, groups, progress)

    return VerifyDataSource


@contextmanager
def _listening(host: str, on_progress: OnProgress) -> Iterator[tuple[str, int]]:
    """Pass on what tasks tell, for as long as the context is open."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((host, 0))
    address: Any = listener.getsockname()

    def listen() -> None:
        while told := listener.recv(64):
            on_progress(int(told))

    thread = threading.Thread(target=listen, name="verify-progress", daemon=True)
    thread.start()
    try:
        yield address[0], address[1]
    finally:
        listener.sendto(b"", address)
        thread.join()
        listener.close()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "heliograph" in line]
    return (told or lines or ["no reason given"])[-1]
