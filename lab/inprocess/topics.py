"""The topics of an in-process cluster: ids, leaders, epochs, and a log per partition."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from lab.inprocess.code import Code, RefusedRequest
from lab.inprocess.log import PartitionLog

NO_LEADER = -1


@dataclass(slots=True, eq=False)
class Partition:
    """One partition; `trouble` is what its leader answers instead of serving it."""

    leader: int
    epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)
    trouble: Code = Code.NONE

    def __post_init__(self) -> None:
        self.log.begin_epoch(self.epoch)

    def elect(self, leader: int, keeps: int | None = None) -> None:
        """Give the partition a leader of a new epoch; one that `keeps` only so many offsets was not in sync."""
        self.leader = leader
        self.epoch += 1
        if keeps is not None:
            self.log.truncate(keeps)
        if leader != NO_LEADER:
            self.log.begin_epoch(self.epoch)

    def check_leader(self, node: int) -> None:
        if self.leader != node:
            raise RefusedRequest(Code.NOT_LEADER_OR_FOLLOWER)
        if self.trouble:
            raise RefusedRequest(self.trouble)


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    partitions: list[Partition]
    topic_id: UUID = field(default_factory=uuid4)
    max_message_bytes: int = 1 << 20


class Topics:
    """All topics, by name and by id."""

    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}

    def create(self, name: str, leaders: list[int], max_message_bytes: int) -> Topic:
        assert name not in self.by_name, f"{name} exists"
        partitions = [Partition(leader) for leader in leaders]
        topic = Topic(name, partitions, max_message_bytes=max_message_bytes)
        self.by_name[name] = topic
        return topic

    def delete(self, name: str) -> None:
        del self.by_name[name]

    def name_of(self, topic_id: UUID | None) -> str | None:
        """Return the name of the topic with an id."""
        found = (t.name for t in self.by_name.values() if t.topic_id == topic_id)
        return next(found, None)

    def partition(self, name: str, index: int) -> Partition:
        """Return a partition, or raise what a broker answers for one that it does not know."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise RefusedRequest(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return topic.partitions[index]

    def served(self, name: str, index: int, node: int) -> Partition:
        """Return a partition that `node` leads, or raise why it does not serve it."""
        partition = self.partition(name, index)
        partition.check_leader(node)
        return partition
