"""A running heliograph, as an operator starts it: a file, a process, a log."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.clusters import LiveCluster, Record, eventually
from lab.processes import catches

_ROOT = Path(__file__).parent.parent
_PATIENCE = 25


def unique_alias(letter: str = "A") -> str:
    """Return a cluster alias that no other mirror has, so that no other mirror shares its positions."""
    return letter + uuid.uuid4().hex[:6]


def flow_properties(
    source: tuple[str, str], target: tuple[str, str], topics: str, **extra: str
) -> dict[str, str]:
    """Return an mm2.properties with one flow; a cluster is (alias, bootstrap), `tasks_max` is tasks.max.

    It copies only `topics`: clusters that tests share have heartbeats of many others.
    """
    flows = {f"{source[0]}->{target[0]}": topics}
    alone = {"heartbeats_replication_enabled": "false"}
    return mesh_properties(dict([source, target]), flows, **alone, **extra)


def mesh_properties(
    clusters: Mapping[str, str], flows: Mapping[str, str], **extra: str
) -> dict[str, str]:
    """Return an mm2.properties: clusters are alias to bootstrap, flows `A->B` to the topics they copy."""
    return {
        "clusters": ", ".join(clusters),
        **{f"{alias}.bootstrap.servers": bootstrap for alias, bootstrap in clusters.items()},
        **{f"{flow}.enabled": "true" for flow in flows},
        **{f"{flow}.topics": topics for flow, topics in flows.items()},
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        **{key.replace("_", "."): value for key, value in extra.items()},
    }


class Mirror:
    """`heliograph run` on a file; leaving the context ends it as an operator would and expects exit code 0."""

    command = "run"

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Take the working folder, environment variables in addition to ours, and more arguments."""
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "mm2.properties"
        self.log = folder / "mirror.log"
        self._environment = {**os.environ, "PYTHONPATH": "src", **(environment or {})}
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.write(properties)

    def write(self, properties: Mapping[str, str]) -> None:
        """Write the file that the next start reads."""
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))

    def arguments(self) -> Sequence[str]:
        """Return the arguments of the command."""
        return [str(self.file), *self._arguments]

    @property
    def pid(self) -> int:
        assert self._process is not None, "the mirror was not started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; its log is appended to that of the last one."""
        assert not self.is_alive, "the mirror runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "heliograph", self.command, *self.arguments()],
                cwd=_ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Send SIGTERM and expect exit code 0 within 25 seconds: a cluster that is gone takes some 15."""
        process = self._process
        assert process is not None, "the mirror was not started"
        eventually(
            lambda: catches(process.pid, signal.SIGTERM) or not self.is_alive, describe=self.tail
        )
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the mirror did not end within {_PATIENCE} s:\n{self.tail()}"
            ) from None
        assert code == 0, f"the mirror ended with exit code {code}:\n{self.tail()}"

    def kill(self) -> None:
        """End the process and all that it started, as a crash of the machine would."""
        assert self._process is not None, "the mirror was not started"
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, within: float = 30) -> int:
        """Return the exit code of a process that ends by itself."""
        assert self._process is not None, "the mirror was not started"
        return self._process.wait(within)

    def text(self) -> str:
        """Return the log, with each redraw of Spark's progress bar on a separate line."""
        return self.log.read_text(errors="replace").replace("\r", "\n")

    def lines(self, *words: str) -> list[str]:
        """Return the lines of the log that have all of `words`."""
        return [line for line in self.text().splitlines() if all(word in line for word in words)]

    def tail(self, count: int = 40) -> str:
        return "\n".join(self.text().splitlines()[-count:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_alive and kind is not None:
            self.kill()  # the error is already reported
        elif self.is_alive:
            self.stop()
        elif kind is None and self._process is not None:
            assert self._process.returncode == 0, f"the mirror died:\n{self.tail()}"


Seen = tuple[int, object, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def seen(records: list[Record], timestamp_types: bool = True) -> list[Seen]:
    """Return all that a consumer sees of records except their offsets, in order within partitions."""
    return [
        (r.partition, r.timestamp if timestamp_types else r.timestamp[1], r.key, r.value, r.headers)
        for r in records
    ]


def assert_copied(
    source: LiveCluster,
    topic: str,
    target: LiveCluster,
    remote: str,
    mirror: Mirror,
    *,
    timestamp_types: bool = True,
    within: float = 30,
) -> list[Seen]:
    """Wait until the remote topic has as many records as the source, and return them; they must be the same."""
    expected = seen(source.consume(topic), timestamp_types)

    def describe() -> str:
        if not target.partition_count(remote):
            return f"there is no {remote}\n{mirror.tail()}"
        have = len(target.consume(remote))
        return f"{remote} has {have} of {len(expected)} records\n{mirror.tail()}"

    partitions = source.partition_count(topic)
    eventually(lambda: target.partition_count(remote) == partitions, within, describe)
    # End offsets also count fencing markers; checking them first only saves useless consuming.
    eventually(lambda: sum(target.end_offsets(remote)) >= len(expected), within, describe)
    eventually(lambda: len(target.consume(remote)) >= len(expected), within, describe)
    difference = first_difference(expected, seen(target.consume(remote), timestamp_types))
    assert difference is None, f"{remote}: {difference}"
    return expected


def first_difference(expected: list[Seen], copied: list[Seen]) -> str | None:
    """Return a description of the first difference, None if there is none; values are cut short."""
    for position, (left, right) in enumerate(zip(expected, copied, strict=False)):
        if left != right:
            return f"record {position} is {_short(right)} and should be {_short(left)}"
    if len(expected) != len(copied):
        return f"{len(copied)} records and should be {len(expected)}"
    return None


def _short(record: Seen) -> str:
    return ", ".join(repr(field)[:120] for field in record)
