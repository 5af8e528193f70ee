"""A topic on an in-process source, its copy on an in-process target, and a driver that a test plays."""

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta

from heliograph.copying.lease import LeaseLost
from heliograph.copying.task import copy
from heliograph.driving.lease_server import LeaseServer, Line
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import fence
from heliograph.model import Position, ProducerIdentity, TopicPartition
from heliograph.wire.lease_messages import (
    Alive,
    Claim,
    End,
    Hello,
    Leave,
    Left,
    Limits,
    Note,
    Ping,
    Report,
    Share,
    SlotWritten,
    Take,
    Welcome,
)
from lab.clusters import eventually
from lab.inprocess.batch import read_batch
from lab.inprocess.cluster import InProcessCluster
from tests.unit.kafka.asking import Asker, a_batch
from tests.unit.kafka.brokers import stored_values

LIMITS = Limits(64 << 10, 16 << 10, 5, 8 << 10, read_committed=True)
SURE = 20.0
TOPIC, REMOTE = "t", "A.t"


class Pair:
    """Two clusters of two brokers, and a topic of some partitions in each."""

    def __init__(self, stack: ExitStack, partitions: int = 3) -> None:
        self.stack = stack
        self.source, self.target = (InProcessCluster(name, nodes=2) for name in "AB")
        for cluster, topic in ((self.source, TOPIC), (self.target, REMOTE)):
            stack.callback(cluster.stop)
            cluster.create_topic(topic, partitions)
        self.count = partitions
        self.asker = Asker(self.source.endpoint, stack)
        self.topic_id = str(self.asker.topic_id(TOPIC))
        with closing(Cluster(self.target.endpoint)) as target:
            self.remote_id = str(target.describe([REMOTE])[REMOTE].topic_id)
        self._next = 0

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, index) for index in range(self.count)]

    @property
    def remotes(self) -> list[TopicPartition]:
        return [TopicPartition(REMOTE, index) for index in range(self.count)]

    def produce(self, batches: int, size: int = 3, padding: bytes = b"") -> None:
        """Write so many batches to each partition, of `size` records each, all different."""
        for place in self.places:
            for _ in range(batches):
                values = [b"%d%s" % (self._next + n, padding) for n in range(size)]
                self._next += size
                self.write(place, a_batch(*values))

    def write(self, place: TopicPartition, batch: bytes) -> None:
        """Write a batch as any client does; its leader must answer."""
        assert self.asker.produce(place, batch)[0] == 0

    def append(self, place: TopicPartition, batch: bytes) -> None:
        """Write a batch to the source's log, whatever its brokers do meanwhile."""
        made = read_batch(batch, len(batch))
        self.source.change_log(place, lambda log: log.append(made))

    def is_copied(self) -> bool:
        """Whether each remote partition has as many records as its source."""
        return all(
            len(stored_values(self.target, remote)) >= len(stored_values(self.source, place))
            for place, remote in zip(self.places, self.remotes, strict=True)
        )

    def check(self, describe: Callable[[], object] | None = None) -> None:
        """Wait until all is copied: what the source has, in order, each record once."""
        eventually(self.is_copied, 30, describe)
        for place, remote in zip(self.places, self.remotes, strict=True):
            assert stored_values(self.target, remote) == stored_values(self.source, place)

    def identity(self, name: str = "writer") -> ProducerIdentity:
        """Return the only identity that may write to the copy now."""
        with closing(Cluster(self.target.endpoint, timedelta(seconds=30))) as target:
            return fence(target, name, self.remotes)

    def shares(self, identity: ProducerIdentity, *, resume: bool = False) -> tuple[Share, ...]:
        """Return all partitions, from their beginnings."""
        return tuple(
            Share(
                slot=index,
                source=place,
                topic_id=self.topic_id,
                remote=remote,
                remote_id=self.remote_id,
                position=Position(0, 0),
                identity=identity,
                sequence=0,
                resume=resume,
                max_message_bytes=1 << 20,
            )
            for index, (place, remote) in enumerate(zip(self.places, self.remotes, strict=True))
        )


class Driver:
    """Drives one task of a pair: it says what a test says, and keeps what the task says."""

    def __init__(self, pair: Pair, seconds: float = SURE) -> None:
        """Take for how many seconds the task may write from each ping on; a ping is not answered if 0."""
        self.notes: list[Note] = []
        self.written: dict[int, SlotWritten] = {}
        self.pings = 0
        self.seconds = seconds
        self.failure: Exception | None = None
        self._welcome = Welcome("A->B", pair.source.endpoint, pair.target.endpoint, LIMITS)
        self._line: Line | None = None
        self._leases = pair.stack.enter_context(closing(LeaseServer()))
        self._leases.register("A->B", self)
        self._thread = threading.Thread(target=self._run, name="task", daemon=True)
        self._thread.start()
        eventually(lambda: self._line)
        pair.stack.callback(self.hang_up)

    def grant(self, line: Line, hello: Hello) -> Welcome:
        del hello
        self._line = line
        return self._welcome

    def heard(self, line: Line, note: Note) -> None:
        match note:
            case Ping():
                self.pings += 1
                if self.seconds:
                    line.send(Alive(note.number, self.seconds))
            case Report():
                self.written.update({row.slot: row for row in note.written})
                self.notes.append(note)
            case _:
                self.notes.append(note)

    def lost(self, line: Line) -> None:
        del line

    def take(self, shares: Iterable[Share]) -> None:
        self._send(Take(tuple(shares)))

    def leave(self, *slots: int) -> None:
        self._send(Leave(slots))

    def end(self) -> None:
        """Have the task hand over all, and wait for its end."""
        self._send(End())
        self.join()

    def hang_up(self) -> None:
        """End the lease, and wait for the end of the task."""
        assert self._line is not None
        self._line.hang_up()
        self.join()

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the task has not ended"

    def left(self) -> set[int]:
        """Return the slots that were handed over with everything stored."""
        lefts = [note for note in self.notes if isinstance(note, Left) and not note.behind]
        return {slot for left in lefts for slot in left.slots}

    def after(self, share: Share) -> Share:
        """Return a share that continues where the task has handed it over."""
        row = self.written[share.slot]
        position = Position(row.upstream, row.downstream)
        return replace(share, position=position, sequence=row.sequence)

    def _send(self, order: Take | Leave | End) -> None:
        assert self._line is not None
        self._line.send(order)

    def _run(self) -> None:
        host, port = self._leases.address
        try:
            copy(Claim("A->B", 0, 1, host, port, self._leases.secret), 1)
        except LeaseLost:
            pass
        except Exception as exc:  # noqa: BLE001 - the edge of a thread: a test looks at it
            self.failure = exc
