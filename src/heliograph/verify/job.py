"""The Spark job of a verify: groups of partition pairs become tasks, findings come back.

The plan holds endpoints with their passwords. It travels inside the pickled function of the job, which Spark
shows in no plan and no log.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from heliograph.spark.task_pool import TaskPool
from heliograph.verify.pairs import Ends, PartitionPair, compare_pairs
from heliograph.verify.streams import Findings

_GROUPS_PER_SLOT = 4
OnProgress = Callable[[int], None]
_Group = tuple[PartitionPair, ...]


class Comparison:
    """What a task does; Spark pickles it, once per task."""

    def __init__(self, ends: Ends, progress: tuple[str, int]) -> None:
        self._ends = ends
        self._progress = progress

    def __call__(self, groups: Iterable[_Group]) -> Iterator[tuple[PartitionPair, Findings]]:
        """Yield the findings of every pair. Called by Spark in a worker; blocks while brokers are read."""
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as speaker:

            def tell(records: int) -> None:
                with suppress(OSError):  # nothing depends on a progress bar
                    speaker.sendto(b"%d" % records, self._progress)

            for group in groups:
                yield from compare_pairs(self._ends, group, tell)


def run_job(
    pool: TaskPool, ends: Ends, pairs: Sequence[PartitionPair], on_progress: OnProgress
) -> list[tuple[PartitionPair, Findings]]:
    """Return the findings of every pair."""
    groups = group_pairs(pairs, pool.slots * _GROUPS_PER_SLOT)
    with _listening(pool.host, on_progress) as progress:
        return pool.run("verify", Comparison(ends, progress), groups)


def group_pairs(pairs: Sequence[PartitionPair], at_most: int) -> list[tuple[PartitionPair, ...]]:
    """Return the pairs in groups of about equal size, largest pairs first."""
    groups: list[list[PartitionPair]] = [[] for _ in range(min(at_most, len(pairs)))]
    sizes = [0] * len(groups)
    for pair in sorted(pairs, key=lambda pair: -pair.span):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(pair)
        sizes[smallest] += pair.span + 1
    return [tuple(group) for group in groups]


@contextmanager
def _listening(host: str, on_progress: OnProgress) -> Iterator[tuple[str, int]]:
    """Pass on the progress that tasks report, as long as the context is open."""
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
