"""Which offsets Connect's REST API may set for the three connectors (KIP-875), as parsed from JSON.

Every check takes one entry, `partition` to `offset`, and raises ConfigError where MirrorMaker 2 refuses
it. An offset of null removes the entry and is always allowed: this is the way to remove garbage.
"""

from collections.abc import Mapping

from heliograph.errors import ConfigError

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

Json = Mapping[str, object]


def check_source_offset(partition: Json | None, offset: Json | None) -> None:
    if offset is None:
        return
    place = _check_partition(partition, ("cluster", "topic"), numbered=True)
    _check_number(place, offset, "offset", _LONG_MAX)


def check_checkpoint_offset(partition: Json | None, offset: Json | None) -> None:
    if offset is None:
        return
    place = _check_partition(partition, ("group", "topic"), numbered=True)
    _check_number(place, offset, "offset", 0)


def check_heartbeat_offset(partition: Json | None, offset: Json | None) -> None:
    if offset is None:
        return
    place = _check_partition(
        partition, ("sourceClusterAlias", "targetClusterAlias"), numbered=False
    )
    _check_number(place, offset, "offset", 0)


def _check_partition(partition: Json | None, names: tuple[str, ...], *, numbered: bool) -> str:
    """Return how an error about this partition begins."""
    if partition is None:
        raise ConfigError("partition null: only an offset of null goes with it. Name a partition.")
    place = f"partition {dict(partition)}"
    for name in names:
        if not isinstance(partition.get(name), str):
            raise ConfigError(f"{place}: {name} must be a string. Add or correct it.")
    if numbered:
        _check_number(place, partition, "partition", _INT_MAX)
    return place


def _check_number(place: str, values: Json, name: str, most: int) -> None:
    number = values.get(name)
    # JSON's true is a number in Python.
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        allowed = f"a whole number from 0 to {most}" if most else "0"
        raise ConfigError(
            f"{place}: {name} must be {allowed}, not {number!r}. Add or correct it."
            if name in values
            else f"{place}: {name} is missing in {dict(values)}. Add {allowed}."
        )
