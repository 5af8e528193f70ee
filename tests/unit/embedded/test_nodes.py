from pathlib import Path

import pytest

from heliograph.embedded.nodes import Node, format_logs, node_properties, write_properties

NODES = [Node(1, 9001, 9101), Node(2, 9002, 9102), Node(3, 9003, 9103)]


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2")]
)
def test_internal_topics_have_as_many_copies_as_there_are_brokers(
    brokers: int, copies: str, in_sync: str
) -> None:
    told = node_properties(NODES[0], NODES[:brokers], Path("/logs"), {})

    assert told["offsets.topic.replication.factor"] == copies
    assert told["transaction.state.log.replication.factor"] == copies
    assert told["transaction.state.log.min.isr"] == in_sync


def test_only_loopback_is_listened_to_and_every_voter_is_named() -> None:
    told = node_properties(NODES[1], NODES, Path("/logs"), {})

    assert told["listeners"] == "CLIENT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9102"
    assert told["controller.quorum.voters"] == "1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103"


def test_those_who_come_through_a_proxy_are_sent_back_to_it() -> None:
    told = node_properties(Node(1, 9001, 9101, 9201, 9301), NODES, Path("/logs"), {})

    assert told["listeners"].endswith(",PROXIED://127.0.0.1:9201")
    assert told["advertised.listeners"] == "CLIENT://127.0.0.1:9001,PROXIED://127.0.0.1:9301"
    assert told["listener.security.protocol.map"].endswith(",PROXIED:PLAINTEXT")


def test_given_config_wins() -> None:
    told = node_properties(NODES[0], NODES, Path("/logs"), {"auto.create.topics.enable": "true"})

    assert told["auto.create.topics.enable"] == "true"


def test_backslashes_and_line_ends_survive_java_properties(tmp_path: Path) -> None:
    write_properties(tmp_path / "p", {"a": "x\\y", "b": "1\n2"})

    assert (tmp_path / "p").read_text() == "a=x\\\\y\nb=1\\n2\n"


def test_a_formatted_folder_is_not_formatted_again(tmp_path: Path) -> None:
    format_logs(NODES[0], "first", tmp_path / "logs", b"levels")
    before = (tmp_path / "logs" / "meta.properties").read_text()
    format_logs(NODES[0], "second", tmp_path / "logs", b"levels")

    assert "cluster.id=first" in before
    assert (tmp_path / "logs" / "meta.properties").read_text() == before
