"""The positions of one connector in Connect's offsets topic, as its REST API shows and sets them."""

from contextlib import closing

from heliograph.config.fields import Part
from heliograph.config.flow import FlowConfig
from heliograph.connect.alter_offsets import (
    check_checkpoint_offset,
    check_heartbeat_offset,
    check_source_offset,
)
from heliograph.connect.herder import ConnectorStatus, Offset, RestError, RunState
from heliograph.errors import ConfigError
from heliograph.kafka.cluster import Cluster
from heliograph.saved.progress import open_offsets
from heliograph.wire.connect_records import (
    SourceOffset,
    decode_source_key,
    decode_source_offset,
    encode_source_key,
    encode_source_offset,
)

_CHECKS = {
    Part.SOURCE: check_source_offset,
    Part.CHECKPOINT: check_checkpoint_offset,
    Part.HEARTBEAT: check_heartbeat_offset,
}


def check_stopped(status: ConnectorStatus) -> None:
    """Refuse to set positions of a connector that has not stopped."""
    if status.state is not RunState.STOPPED:
        raise RestError(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
            f"for connector {status.name} by issuing a 'PUT' request to the '/connectors/{status.name}/stop' endpoint",
        )


def read_offsets(part: Part, config: FlowConfig) -> list[Offset]:
    """Return every saved position; checkpoints and heartbeats have none."""
    storage = config.offset_storage
    found: list[Offset] = []
    if part is not Part.SOURCE:
        return found
    with closing(Cluster(storage.endpoint)) as cluster:
        if storage.file is None and storage.name not in cluster.describe([storage.name]):
            return found
        for raw_key, raw_value in open_offsets(cluster, storage).read().items():
            key = decode_source_key(raw_key)
            offset = decode_source_offset(raw_value)
            if key is None or key.connector != config.connector_name:
                continue
            if offset is None or offset.upstream == 0:
                continue  # nothing of it was copied yet
            place = {
                "cluster": key.cluster,
                "partition": key.partition.index,
                "topic": key.partition.topic,
            }
            found.append({"partition": place, "offset": {"offset": offset.upstream - 1}})
    return sorted(found, key=lambda o: (o["partition"]["topic"], o["partition"]["partition"]))


def write_offsets(part: Part, config: FlowConfig, offsets: list[Offset] | None) -> None:
    """Set positions, delete those whose offset is None, or all with None.

    A position that was set by hand has no downstream offset: the flow continues after what is there.
    """
    if offsets is None:
        offsets = [{**offset, "offset": None} for offset in read_offsets(part, config)]
    rows: dict[bytes, bytes | None] = {}
    for entry in offsets:
        partition, offset = entry.get("partition"), entry.get("offset")
        try:
            _CHECKS[part](partition, offset)
        except ConfigError as exc:
            raise RestError(400, str(exc)) from exc
        if part is not Part.SOURCE or not isinstance(partition, dict):
            continue
        if set(partition) != {"cluster", "partition", "topic"}:
            continue  # only a deletion may name what cannot exist
        key = encode_source_key(
            config.connector_name, partition["cluster"], partition["topic"], partition["partition"]
        )
        rows[key] = (
            None if offset is None else encode_source_offset(SourceOffset(offset["offset"] + 1))
        )
    storage = config.offset_storage
    if rows:
        with closing(Cluster(storage.endpoint)) as cluster:
            table = open_offsets(cluster, storage)
            table.ensure(storage.partitions, storage.replication_factor)
            table.write(rows)
