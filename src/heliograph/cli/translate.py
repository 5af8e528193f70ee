"""`heliograph translate-offsets`: 0 translated, 1 nothing to translate from, 2 wrong use, 3 unreachable."""

import json
import os
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from heliograph.client import MirrorClient, OffsetAndMetadata, TopicPartition
from heliograph.config.properties import read_properties
from heliograph.config.providers import resolve
from heliograph.errors import ClusterUnreachable, ConfigError

_GROUPS_SHOWN = 5


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


def translate_offsets(
    *,
    bootstrap_server: Annotated[
        str, typer.Option(help="The cluster that is mirrored to, as host:port,host:port.")
    ],
    remote_cluster: Annotated[str, typer.Option(help="The cluster it is mirrored from, by alias.")],
    group: Annotated[
        str | None, typer.Option(help="A consumer group of the remote cluster.")
    ] = None,
    exact: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC:PARTITION:OFFSET",
            help="Instead of a group: one offset, translated over the run map.",
        ),
    ] = None,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="With --exact: from this cluster to the remote one.")
    ] = False,
    command_config: Annotated[
        Path | None, typer.Option(help="Client properties: security.protocol and so on.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="As replication.policy.class.")] = None,
    separator: Annotated[str | None, typer.Option(help="As replication.policy.separator.")] = None,
    within: Annotated[float, typer.Option(min=0, help="Seconds before giving up.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell where a consumer group may continue on the cluster that it is mirrored to."""
    if (group is None) == (exact is None):
        raise ConfigError("translate-offsets takes either --group or --exact, and one of them.")
    if upstream and exact is None:
        raise ConfigError(
            "--upstream goes with --exact; a group is only translated to this cluster."
        )
    asked = None if exact is None else parse_place(exact)
    properties = _properties(command_config)
    properties["bootstrap.servers"] = bootstrap_server
    properties.setdefault("source.cluster.alias", remote_cluster)
    if policy is not None:
        properties["replication.policy.class"] = policy
    if separator is not None:
        properties["replication.policy.separator"] = separator
    patience = timedelta(seconds=within)
    try:
        with MirrorClient.from_properties(properties, patience=patience) as client:
            if asked is not None:
                _translate_exactly(
                    client, remote_cluster, asked, patience, upstream=upstream, as_json=as_json
                )
            elif group is not None:
                _translate_group(client, remote_cluster, group, patience, as_json)
    except ClusterUnreachable as exc:
        _stop(
            f"no broker answers at {exc.bootstrap} ({exc.reason}). "
            "Check that the cluster runs and that --bootstrap-server is right.",
            exc.exit_code,
        )


def parse_place(text: str) -> Place:
    """Read TOPIC:PARTITION:OFFSET."""
    topic, *numbers = text.split(":")
    if not topic or len(numbers) != 2 or not all(n.isascii() and n.isdigit() for n in numbers):
        raise ConfigError(f"--exact {text}: write TOPIC:PARTITION:OFFSET, such as orders:0:1234.")
    return Place(topic, int(numbers[0]), int(numbers[1]))


def explain_absence(group: str, remote_cluster: str, groups: Iterable[str]) -> str:
    """Say that a group has no checkpoint, and which groups have one."""
    known = sorted(groups)
    if not known:
        others = "Nor has any other group: is the mirror running, and does it take in groups?"
    else:
        more = len(known) - _GROUPS_SHOWN
        named = ", ".join(known[:_GROUPS_SHOWN]) + (f" and {more} more" if more > 0 else "")
        others = f"Groups that have one: {named}."
    return f"group {group} of {remote_cluster} has no checkpoint on this cluster. {others}"


def _translate_group(
    client: MirrorClient, remote_cluster: str, group: str, within: timedelta, as_json: bool
) -> None:
    groups = client.remote_groups(remote_cluster, within)
    if group not in groups:
        _stop(explain_absence(group, remote_cluster, groups))
    offsets = sorted(groups[group].items())
    if as_json:
        print(json.dumps([_row(*item) for item in offsets], indent=2))
        return
    table = Table(box=None)
    table.add_column("topic", overflow="fold")
    table.add_column("partition", justify="right")
    table.add_column("offset", justify="right")
    table.add_column("metadata", overflow="fold")
    for partition, place in offsets:
        numbers = str(partition.index), str(place.offset)
        table.add_row(partition.topic, *numbers, Text(place.metadata))
    Console().print(table)


def _row(partition: TopicPartition, place: OffsetAndMetadata) -> dict[str, object]:
    return {
        **Place(partition.topic, partition.index, place.offset)._asdict(),
        "metadata": place.metadata,
    }


def _translate_exactly(
    client: MirrorClient,
    remote_cluster: str,
    asked: Place,
    within: timedelta,
    *,
    upstream: bool,
    as_json: bool,
) -> None:
    offset = client.exact_offset(
        *asked, remote_cluster=remote_cluster, upstream=upstream, within=within
    )
    if offset is None:
        _stop(
            f"{asked.topic}:{asked.partition}:{asked.offset}: no run map of {remote_cluster} on this "
            "cluster tells. Was this topic, by its name there, copied by heliograph, and by then?"
        )
    remote = client.naming.format_remote_topic(remote_cluster, asked.topic)
    found = Place(asked.topic if upstream else remote, asked.partition, offset)
    print(json.dumps(found._asdict(), indent=2) if as_json else ":".join(map(str, found)))


def _properties(file: Path | None) -> dict[str, str]:
    return {} if file is None else dict(resolve(read_properties(file), os.environ).entries)


def _stop(why: str, exit_code: int = 1) -> NoReturn:
    print(f"heliograph: {why}", file=sys.stderr)
    sys.exit(exit_code)
