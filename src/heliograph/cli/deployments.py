"""The three connectors of a source cluster: `mm2-msc-`, `mm2-cpc-` and `mm2-hbc-<cluster>.json`, each named as its file."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from heliograph.cli.rest import ConnectApi
from heliograph.cli.standing import Standing, ask_standing
from heliograph.config.fields import Part
from heliograph.config.mistakes import InvalidSetting
from heliograph.config.properties import read_json
from heliograph.config.secrets import HIDDEN, redact
from heliograph.config.validate import find_plugin
from heliograph.connect.herder import RestError, RunState
from heliograph.errors import ConfigError

_POLL = timedelta(milliseconds=500)


class Kind(NamedTuple):
    letters: str
    part: Part
    purpose: str


# In this order they are deployed, and in the other they go: checkpoints need what the source connector writes.
KINDS = (
    Kind("msc", Part.SOURCE, "copies the records"),
    Kind("cpc", Part.CHECKPOINT, "tells where consumer groups may continue"),
    Kind("hbc", Part.HEARTBEAT, "shows that the flow is alive"),
)


@dataclass(frozen=True, slots=True, repr=False)
class Connector:
    """A connector as its file has it; only its name is shown."""

    name: str
    part: Part
    config: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Connector({self.name})"


class Step(StrEnum):
    """What deploying does to a connector."""

    CREATE = "deployed"
    CHANGE = "changed"
    SEND_AGAIN = "sent again, because secrets cannot be compared"
    RESTART = "restarted, because it had failed"
    LEAVE = "left alone, because it is deployed with this very configuration"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a connector, in words; `refused` is the worker's reason for not doing it."""

    name: str
    part: Part
    done: str
    refused: str | None = None


def names_of(cluster: str) -> dict[str, Part]:
    """Return the names of a cluster's connectors, in the order they are deployed."""
    return {f"mm2-{kind.letters}-{cluster}": kind.part for kind in KINDS}


def read_deployment(folder: Path, cluster: str) -> list[Connector]:
    """Read all three files of a cluster, or tell which are missing and what they are for."""
    if missing := [kind for kind in KINDS if not _file(folder, kind, cluster).is_file()]:
        raise ConfigError(_explain_missing(folder, cluster, missing))
    return [_read(folder, kind, cluster) for kind in KINDS]


def plan_step(
    config: Mapping[str, str], stored: Mapping[str, str] | None, standing: Standing | None
) -> Step:
    """Return what makes a worker's connector the wanted one; one that rests on purpose stays at rest."""
    if stored is None:
        return Step.CREATE
    masked = HIDDEN in stored.values()
    if stored != (redact(config) if masked else config):
        return Step.CHANGE
    if masked:
        return Step.SEND_AGAIN
    if standing is not None and RunState.FAILED in standing.states:
        return Step.RESTART
    return Step.LEAVE


def deploy(
    api: ConnectApi, connectors: Iterable[Connector], tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Deploy connectors one by one; one that is refused does not hold up the others."""
    return [_told(tell, lambda c=c: _deploy(api, c), c.name, c.part) for c in connectors]  # type: ignore[misc]


def undeploy(api: ConnectApi, cluster: str, tell: Callable[[Outcome], None]) -> list[Outcome]:
    """Take a cluster's connectors away, whether or not there are files."""

    def remove(name: str) -> str:
        if api.config(name) is None:
            return "not deployed"
        api.delete(name)
        return "undeployed"

    names = reversed(names_of(cluster).items())
    return [_told(tell, lambda name=name: remove(name), name, part) for name, part in names]  # type: ignore[misc]


def wait_until_running(
    api: ConnectApi,
    names: Mapping[str, Part],
    within: timedelta,
    show: Callable[[int], None] = lambda _: None,
) -> list[Standing]:
    """Return how connectors stand when all of them run, or when the time is over; `show` gets how many do.

    One that runs without tasks has not begun, or has nothing to do: only time tells.
    """
    deadline = time.monotonic() + within.total_seconds()
    while True:
        found = [ask_standing(api, name, part) for name, part in names.items()]
        count = sum(standing.is_running and bool(standing.tasks) for standing in found)
        show(count)
        if count == len(names) or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL.total_seconds())


def _deploy(api: ConnectApi, connector: Connector) -> str:
    stored = api.config(connector.name)
    standing = None if stored is None else ask_standing(api, connector.name, connector.part)
    step = plan_step(connector.config, stored, standing)
    if step in (Step.CREATE, Step.CHANGE, Step.SEND_AGAIN):
        api.put_config(connector.name, connector.config)
    elif step is Step.RESTART:
        api.restart(connector.name, tasks=True, only_failed=True)
    if standing is not None and standing.state in (RunState.PAUSED, RunState.STOPPED):
        return f"{step}; it is {standing.state}, and `heliograph connectors resume` ends that"
    return step


def _told(tell: Callable[[Outcome], None], do: Callable[[], str], name: str, part: Part) -> Outcome:
    try:
        outcome = Outcome(name, part, do())
    except RestError as exc:
        outcome = Outcome(name, part, "refused", str(exc))
    tell(outcome)
    return outcome


def _file(folder: Path, kind: Kind, cluster: str) -> Path:
    return folder / f"mm2-{kind.letters}-{cluster}.json"


def _read(folder: Path, kind: Kind, cluster: str) -> Connector:
    file = _file(folder, kind, cluster)
    entries = read_json(file).entries
    named = entries.get("name", file.stem)
    if named != file.stem:
        raise InvalidSetting(_where(named, file), "name", named, f"this file is for {file.stem}")
    written = entries.get("connector.class", "")
    part = find_plugin(written)
    if part not in (None, kind.part):  # a class that nobody knows here is for the worker to judge
        allowed = f"this file is for the {kind.part} connector, which {kind.purpose}"
        raise InvalidSetting(_where(written, file), "connector.class", written, allowed)
    return Connector(file.stem, kind.part, {**entries, "name": file.stem})


def _where(written: str, file: Path) -> str:
    return str(getattr(written, "origin", file))


def _explain_missing(folder: Path, cluster: str, missing: list[Kind]) -> str:
    files = " and ".join(
        f"{_file(folder, kind, cluster)}, the {kind.part} connector, which {kind.purpose}"
        for kind in missing
    )
    prefix = f"mm2-{KINDS[0].letters}-"
    others = sorted(file.stem.removeprefix(prefix) for file in folder.glob(f"{prefix}*.json"))
    if len(missing) < len(KINDS) or not others:
        return f"cluster {cluster} lacks {files}. Write what is missing, or name another folder with --dir."
    return f"there is no cluster {cluster} in {folder}, only {', '.join(others)}: name one of these, or write {files}."
