"""MirrorMaker 1's command line: a consumer's and a producer's properties file, and a pattern of topics.

They make a flow that keeps its positions where MirrorMaker 1 did, in the consumer's group, and has nothing
in addition to the data: no internal topics, no checkpoints, no heartbeats, no settings or ACLs copied.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from heliograph.config.fields import MILLISECONDS, Field, Part
from heliograph.config.flow import FlowConfig, flow_config
from heliograph.config.mistakes import MissingSetting
from heliograph.config.precedence import CLASSES
from heliograph.config.properties import Properties, read_properties
from heliograph.config.providers import resolve
from heliograph.config.settings import CLIENT_KEYS
from heliograph.config.settings_own import ReadSettings
from heliograph.config.settings_security import BootstrapSettings
from heliograph.config.settings_worker import WorkerSettings
from heliograph.errors import ConfigError

_GROUP_ID = "group.id"
_REFRESH = Field(
    "metadata.max.age.ms",
    MILLISECONDS,
    timedelta(minutes=5),
    "How often the consumer looked for new topics.",
)
_NOTHING_BESIDE = {
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
}


def load_legacy(
    consumer: Path,
    producer: Path,
    include: str,
    commit_every: timedelta,
    environment: Mapping[str, str] | None = None,
) -> FlowConfig:
    """Load and check both files; ConfigError says the first thing that is wrong with them."""
    known = os.environ if environment is None else environment
    reads, writes = (resolve(read_properties(file), known) for file in (consumer, producer))
    for file in (reads, writes):
        _demand(
            file, BootstrapSettings.servers.name, "brokers to ask first, as host:port,host:port"
        )
    group = _demand(reads, _GROUP_ID, "the group in which MirrorMaker kept its offsets")
    refresh = max(_REFRESH.read(reads.entries), timedelta(seconds=1))
    props: dict[str, str] = {
        **_as_side(reads, "source", "consumer"),
        **_as_side(writes, "target", "producer"),
        "name": group,
        "connector.class": CLASSES[Part.SOURCE],
        "enabled": "true",
        "source.cluster.alias": "source",
        "target.cluster.alias": "target",
        "topics": java_pattern(include),
        "topics.exclude": "",
        "replication.policy.class": "heliograph.policy.same_names:SameNames",
        "replication.factor": "-1",
        "config.properties.exclude": ".*",
        "refresh.topics.interval.seconds": str(refresh // timedelta(seconds=1)),
        "target.partitions": "target",
        "on.loss": "continue",
        **_NOTHING_BESIDE,
    }
    props.setdefault(f"source.consumer.{ReadSettings.auto_offset_reset.name}", "latest")
    worker = {
        WorkerSettings.offset_flush_interval.name: str(commit_every // timedelta(milliseconds=1))
    }
    flow = flow_config({Part.SOURCE: props}, worker, reads.file, {"source": "", "target": ""})
    return replace(
        flow,
        positions_group=str(group),
        offset_storage=replace(flow.offset_storage, endpoint=flow.source_admin),
    )


def java_pattern(include: str) -> str:
    """Return a whitelist as one pattern: MirrorMaker 1 read a comma as `|`, and dropped blanks and outer quotes."""
    pattern = re.sub(r"^[\"']+|[\"']+$", "", include.replace(",", "|").replace(" ", ""))
    if not pattern:
        raise ConfigError("--whitelist is empty: name the topics to mirror, such as 'orders.*'.")
    return pattern


def _demand(file: Properties, key: str, what: str) -> str:
    if not file.entries.get(key, "").strip():
        raise MissingSetting(file.file, key, what)
    return file.entries[key].strip()


def _as_side(file: Properties, side: str, role: str) -> dict[str, str]:
    """Return a client's file as a connector's keys: connection keys apply to every client of the cluster."""
    found: dict[str, str] = {}
    for key, value in file.entries.items():
        found[f"{side}.{role}.{key}"] = value
        if key in CLIENT_KEYS:
            found[f"{side}.cluster.{key}"] = value
    return found
