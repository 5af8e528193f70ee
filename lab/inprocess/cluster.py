"""An in-process Kafka cluster: brokers on loopback ports, with real sockets and Kafka's own protocol, in one thread.

It is honest in what it answers, and test_broker_answers.py and test_broker_stores.py in tests/unit/kafka ask it and a real broker the same. It has
no TLS, no groups, no configs, and one copy of each log: whatever node leads a partition has all of it, and all of it is
committed. Methods may be called from any thread, and from the events of the script.
"""

from collections.abc import Callable
from typing import Any

from heliograph.model import Endpoint, TopicPartition
from lab.inprocess.code import Code
from lab.inprocess.describing import describe_topics, list_offsets
from lab.inprocess.fetching import Fetch
from lab.inprocess.line import Answering
from lab.inprocess.log import PartitionLog
from lab.inprocess.messages import Api, Asked, list_versions
from lab.inprocess.node import HOST, Node
from lab.inprocess.producing import answer_produce
from lab.inprocess.script import Event, Fate, Script
from lab.inprocess.server import Server
from lab.inprocess.sessions import Sessions
from lab.inprocess.topics import Partition, Topics
from lab.inprocess.transactions import Transactions


class _AtOnce:
    """What is answered without waiting."""

    wait = 0.0

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def attempt(self, *, is_over: bool) -> Any:
        del is_over
        return self._answer()


class InProcessCluster:
    """A cluster of some nodes, numbered from 1."""

    def __init__(self, name: str, nodes: int = 1) -> None:
        self.name = name
        self._topics = Topics()
        self._transactions = Transactions(self._topics)
        self._nodes = {number: Node(number) for number in range(1, nodes + 1)}
        self._sessions = {number: Sessions(number) for number in self._nodes}
        self._script = Script()
        self._answers: dict[Api, Callable[[Asked], Any]] = {
            Api.API_VERSIONS: list_versions,
            Api.METADATA: lambda asked: describe_topics(
                self._topics, self._addresses(), self.name, asked
            ),
            Api.LIST_OFFSETS: lambda asked: list_offsets(self._topics, asked),
            Api.PRODUCE: lambda asked: answer_produce(self._topics, self._transactions, asked),
            Api.FIND_COORDINATOR: self._find_coordinator,
            Api.INIT_PRODUCER_ID: self._transactions.init,
            Api.ADD_PARTITIONS_TO_TXN: self._transactions.join,
            Api.END_TXN: self._transactions.end,
        }
        self._server = Server(self._nodes.values(), self._script, self._begin)

    def stop(self) -> None:
        self._server.stop()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.name, tuple((HOST, node.port) for node in self._nodes.values()))

    # Topics

    def create_topic(self, name: str, partitions: int = 1, max_message_bytes: int = 1 << 20) -> str:
        """Create a topic whose partitions are led by the nodes in turn, and return its id."""
        numbers = list(self._nodes)
        leaders = [numbers[index % len(numbers)] for index in range(partitions)]
        made = self._server.do(lambda: self._topics.create(name, leaders, max_message_bytes))
        return str(made.topic_id)

    def delete_topic(self, name: str) -> None:
        self._server.do(lambda: self._topics.delete(name))

    def elect(self, partition: TopicPartition, leader: int, keeps: int | None = None) -> None:
        """Move a partition to another leader; NO_LEADER for none. One that `keeps` only part has lost the rest."""
        self._change(partition, lambda found: found.elect(leader, keeps))

    def trouble(self, partition: TopicPartition, code: Code) -> None:
        """Have a leader answer an error for a partition, until that is NONE again."""

        def change(found: Partition) -> None:
            found.trouble = code

        self._change(partition, change)

    def change_log(
        self, partition: TopicPartition, change: Callable[[PartitionLog], object]
    ) -> None:
        self._change(partition, lambda found: change(found.log))

    def end_of(self, partition: TopicPartition) -> int:
        return self._server.do(lambda: self._partition(partition).log.end)

    def batches_of(self, partition: TopicPartition) -> list[bytes]:
        """Return what is stored in a partition."""
        return self._server.do(lambda: [b.data for b in self._partition(partition).log.batches])

    # Nodes

    def close_node(self, node: int) -> None:
        """Refuse connections to a node, and reset those that it has."""
        self._server.close(self._nodes[node])

    def open_node(self, node: int) -> None:
        self._server.open(self._nodes[node])

    def cut(self, node: int) -> None:
        """Reset all connections to a node; it accepts new ones."""
        self._server.cut(self._nodes[node])

    def restart(self, node: int) -> None:
        """Do what a fast restart does: connections and fetch sessions are lost."""
        self._server.do(self._sessions[node].forget)
        self.cut(node)

    def silence(self, node: int, *, is_silent: bool = True) -> None:
        """Have a node accept connections and requests, and answer nothing until it speaks again."""

        def change() -> None:
            self._nodes[node].is_silent = is_silent

        self._server.do(change)

    def slow_down(self, node: int, seconds: float) -> None:
        """Delay each answer of a node."""

        def change() -> None:
            self._nodes[node].delay = seconds

        self._server.do(change)

    def forget_sessions(self, node: int) -> None:
        self._server.do(self._sessions[node].forget)

    def limit_sessions(self, node: int, room: int) -> None:
        """Let a node have so many fetch sessions; 0 as for one whose cache is full."""

        def change() -> None:
            self._sessions[node].room = room

        self._server.do(change)

    # Events

    def plan(self, event: Event) -> Event:
        """Have something happen at an exact request."""
        self._server.do(lambda: self._script.events.append(event))
        return event

    def hold(self, api: Api, node: int | None = None) -> Event:
        """Hold all answers of a kind back, from now on, until `release`."""
        return self.plan(Event(api, times=1 << 30, node=node, fate=Fate.HELD))

    def release(self, event: Event) -> None:
        """Send the answers that were held back, and hold no more."""

        def change() -> None:
            event.is_released = True
            self._script.events.remove(event)

        self._server.do(change)

    def asked(self, api: Api) -> list[Asked]:
        """Return the requests of a kind that there were."""
        return self._server.do(lambda: [a for a in self._script.asked if a.api is api])

    def _change(self, partition: TopicPartition, change: Callable[[Partition], object]) -> None:
        self._server.do(lambda: change(self._partition(partition)))

    def _partition(self, partition: TopicPartition) -> Partition:
        return self._topics.partition(partition.topic, partition.index)

    def _begin(self, asked: Asked) -> Answering:
        """Begin to answer a request."""
        if asked.api is Api.FETCH:
            return Fetch(self._topics, self._sessions[asked.node], asked)
        return _AtOnce(lambda: self._answer(asked))

    def _answer(self, asked: Asked) -> Any:
        return self._answers[asked.api](asked)

    def _find_coordinator(self, _asked: Asked) -> Any:
        first = min(self._addresses(), default=1)
        return self._transactions.find_coordinator(first, HOST, self._nodes[first].port)

    def _addresses(self) -> dict[int, tuple[str, int]]:
        """Return the brokers that count as alive: a closed one has left its cluster, a silent one has not yet."""
        return {n.number: (HOST, n.port) for n in self._nodes.values() if n.is_open}
