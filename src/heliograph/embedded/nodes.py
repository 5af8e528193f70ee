"""The configuration of embedded brokers: each is controller and broker in one, on loopback only."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heliograph.embedded.ports import LOOPBACK

LOG4J = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.config.name = org.apache.kafka.common.config
logger.config.level = warn
logger.raft.name = org.apache.kafka.raft
logger.raft.level = warn
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker; with `proxied_port` it listens there too, and advertises `proxy_port` to those clients."""

    id: int
    port: int
    controller_port: int
    proxied_port: int = 0
    proxy_port: int = 0


def node_properties(
    node: Node, nodes: Sequence[Node], logs: Path, config: Mapping[str, str]
) -> dict[str, str]:
    """Return a broker's server.properties; `config` wins over every default here.

    The clients' listener is named CLIENT, so that `listener.security.protocol.map` in `config` can put
    TLS or SASL on it. The one behind a proxy is named PROXIED.
    """
    copies = str(min(3, len(nodes)))
    in_sync = str(min(2, len(nodes)))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(
            f"{n.id}@{LOOPBACK}:{n.controller_port}" for n in nodes
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        **_listeners(node),
        "log.dirs": str(logs),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": copies,
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        **config,
    }


def _listeners(node: Node) -> dict[str, str]:
    listens = {"CLIENT": node.port, "CONTROLLER": node.controller_port}
    tells = {"CLIENT": node.port}
    if node.proxied_port:
        listens["PROXIED"], tells["PROXIED"] = node.proxied_port, node.proxy_port

    def addresses(ports: Mapping[str, int]) -> str:
        return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())

    return {
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listens),
        "listeners": addresses(listens),
        "advertised.listeners": addresses(tells),
    }


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    escaped = (
        f"{key}={value}".replace("\\", "\\\\").replace("\n", "\\n")
        for key, value in properties.items()
    )
    file.write_text("\n".join(escaped) + "\n")


def new_id() -> str:
    """Return a random uuid as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def format_logs(node: Node, cluster_id: str, logs: Path, checkpoint: bytes) -> None:
    """Do what `kafka-storage format` does, without its JVM. The checkpoint holds the cluster's feature levels."""
    if (logs / "meta.properties").exists():
        return
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "bootstrap.checkpoint").write_bytes(checkpoint)
    write_properties(
        logs / "meta.properties",
        {
            "version": "1",
            "node.id": str(node.id),
            "cluster.id": cluster_id,
            "directory.id": new_id(),
        },
    )
