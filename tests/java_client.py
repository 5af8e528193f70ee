"""Kafka's own mirror client, asked by a Java program; and ours, asked the same."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heliograph.client import MirrorClient
from heliograph.embedded.jars import PEER, obtain_jars
from heliograph.embedded.java import find_java
from heliograph.embedded.nodes import LOG4J, write_properties

_PROGRAMS = Path(__file__).parent / "java"
_NOBODY = "no-such-cluster"
_SECONDS = 120


def read_with_java(
    bootstrap: str, remote_cluster: str, group: str, properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return all that RemoteClusterUtils and MirrorClient say of a cluster; see `read_with_python`."""
    settings = _settings(bootstrap, properties)
    told: dict[str, Any] = json.loads(_run("ReadMirror", settings, remote_cluster, group))
    return told


def place_with_java(bootstrap: str, topic: str, keys: Sequence[bytes]) -> list[int]:
    """Return the partition to which a Java producer sends each key."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "keys")
        file.write_text("".join(f"{key.hex()}\n" for key in keys))
        printed = _run("PlaceKeys", _settings(bootstrap, None), topic, str(file))
    return [int(line) for line in printed.splitlines()]


def read_with_python(
    bootstrap: str, remote_cluster: str, group: str, properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the same of heliograph's client: topics and clusters sorted, a hop count for each cluster."""
    with MirrorClient.from_properties(_settings(bootstrap, properties)) as client:
        upstream = client.upstream_clusters()
        return {
            "upstream_clusters": sorted(upstream),
            "heartbeat_topics": sorted(client.heartbeat_topics()),
            "checkpoint_topics": sorted(client.checkpoint_topics()),
            "replication_hops": {
                alias: client.replication_hops(alias)
                for alias in {*upstream, remote_cluster, _NOBODY}
            },
            "remote_topics": sorted(client.remote_topics()),
            "remote_topics_of_cluster": sorted(client.remote_topics(remote_cluster)),
            "offsets": [
                {
                    "topic": partition.topic,
                    "partition": partition.index,
                    "offset": place.offset,
                    "metadata": place.metadata,
                }
                for partition, place in sorted(
                    client.remote_consumer_offsets(group, remote_cluster).items()
                )
            ],
        }


def _run(program: str, settings: Mapping[str, str], *arguments: str) -> str:
    """Return what one of the programs in tests/java prints, given a file of settings first."""
    java = find_java()
    jars = obtain_jars(PEER, java)
    with tempfile.TemporaryDirectory() as name:
        file, log4j = Path(name, "client.properties"), Path(name, "log4j2.properties")
        write_properties(file, settings)
        log4j.write_text(LOG4J + "appender.out.target = SYSTEM_ERR\n")
        # Given a .java file, java compiles it first: with a module that Debian's JRE has as well.
        command = [
            str(java.command),
            *("-Xmx256m", "-cp", jars.classpath, f"-Dlog4j2.configurationFile={log4j}"),
            *(str(_PROGRAMS / f"{program}.java"), str(file), *arguments),
        ]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    assert ended.returncode == 0, f"{program} ended with {ended.returncode}:\n{ended.stderr}"
    return ended.stdout


def _settings(bootstrap: str, properties: Mapping[str, str] | None) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, **(properties or {})}
