"""All faults that are injected under load, and how to select some of them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from heliograph.errors import ConfigError
from lab.faults import brokers, machine, network, processes
from lab.faults.fault import Fault

FAULTS = (*brokers.FAULTS, *network.FAULTS, *processes.FAULTS, *machine.FAULTS)


def select_faults(patterns: Sequence[str]) -> list[Fault]:
    """Return the selected faults, in the order of the list; the common ones if none is selected.

    A pattern is a name, a name without its side, or has * and ?.
    """
    if not patterns:
        return [fault for fault in FAULTS if fault.common]
    for pattern in patterns:
        if not any(_matches(fault, pattern) for fault in FAULTS):
            raise ConfigError(
                f"there is no fault {pattern!r}: `heliograph chaos --list` shows all."
            )
    return [fault for fault in FAULTS if any(_matches(fault, p) for p in patterns)]


def _matches(fault: Fault, pattern: str) -> bool:
    sides = {f"{pattern}-source", f"{pattern}-target"}
    return fnmatchcase(fault.name, pattern) or fault.name in sides
