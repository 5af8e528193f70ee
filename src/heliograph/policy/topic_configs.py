"""Which settings a remote topic gets from its source, by MirrorMaker 2's rules.

Read-only and sensitive entries, those of a broker's own file, and excluded names are never copied. A
default of the source is one on the target too: what was set there is reset, unless
`use.defaults.from=source`, which copies the source's default. All else is set, including a dynamic
default of the source's brokers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

# Where an entry's value comes from, as DescribeConfigs numbers it.
TOPIC_CONFIG: Final = 1
DYNAMIC_BROKER_CONFIG: Final = 2
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as a broker describes it for a topic."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class SetConfig:
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class ResetConfig:
    """Remove a topic's own value, so that the cluster's default applies."""

    name: str

    def __str__(self) -> str:
        return f"the default of {self.name}"


ConfigChange = SetConfig | ResetConfig


def plan_configs(
    upstream: Iterable[ConfigEntry],
    downstream: Iterable[ConfigEntry],
    excluded: Callable[[str], bool],
    use_defaults_from: str,
) -> list[ConfigChange]:
    """Return what must change on a remote topic: nothing if it has what it should have."""
    own = {entry.name: entry.value for entry in downstream if entry.source == TOPIC_CONFIG}
    plan: list[ConfigChange] = []
    for entry in _takeable(upstream, excluded):
        value = entry.value if _is_copied(entry, use_defaults_from) else None
        if value is None:
            if entry.name in own:
                plan.append(ResetConfig(entry.name))
        elif own.get(entry.name) != value:
            plan.append(SetConfig(entry.name, value))
    return plan


def creation_configs(
    upstream: Iterable[ConfigEntry], excluded: Callable[[str], bool], use_defaults_from: str
) -> dict[str, str]:
    """Return the settings that a remote topic is created with."""
    return {
        entry.name: entry.value
        for entry in _takeable(upstream, excluded)
        if entry.value is not None and _is_copied(entry, use_defaults_from)
    }


def _takeable(
    upstream: Iterable[ConfigEntry], excluded: Callable[[str], bool]
) -> Iterable[ConfigEntry]:
    return (
        entry
        for entry in upstream
        if not (entry.read_only or entry.sensitive or entry.source == STATIC_BROKER_CONFIG)
        and not excluded(entry.name)
    )


def _is_copied(entry: ConfigEntry, use_defaults_from: str) -> bool:
    return entry.source != DEFAULT_CONFIG or use_defaults_from == "source"
