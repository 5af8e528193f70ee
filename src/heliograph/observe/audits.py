"""The last drill and the last verify of each flow, from the reports that the commands keep in a folder.

A report is `drill-*.json` or `verify-*.json`. If commands run on another machine, share its folder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heliograph.observe.reports import flow_of, load_report, time_of

_LOOKED_AT = 50
_KEPT = "flow", "ok", "records", "measured", "began", "ended"


@dataclass(frozen=True, slots=True)
class DrillStatus:
    """What a drill measured, and when it began, in seconds since 1970."""

    flow: str
    at: float
    ok: bool
    rpo_seconds: float | None
    rto_seconds: float | None


@dataclass(frozen=True, slots=True)
class VerifyStatus:
    """What a verify found, and when it ended, in seconds since 1970."""

    flow: str
    at: float
    ok: bool | None
    records: int


class Audits:
    """The reports of a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[str, float], dict[str, Any] | None] = {}

    def last(self) -> list[DrillStatus | VerifyStatus]:
        """Return the newest of each kind and flow, of the 50 newest reports of the kind."""
        found: dict[tuple[str, str], DrillStatus | VerifyStatus] = {}
        read = {}
        for kind in ("drill", "verify"):
            for path, at in self._newest(kind):
                key = str(path), at
                plain = read[key] = self._read[key] if key in self._read else _shorten(path)
                status = None if plain is None else _status(kind, plain, at)
                if status is not None:
                    found.setdefault((kind, status.flow), status)
        self._read = read
        return list(found.values())

    def _newest(self, kind: str) -> Iterator[tuple[Path, float]]:
        paths = sorted(self._folder.glob(f"{kind}-*.json"), reverse=True)
        for path in paths[:_LOOKED_AT]:
            try:
                yield path, path.stat().st_mtime
            except OSError:
                continue  # it has just been deleted


def _shorten(path: Path) -> dict[str, Any] | None:
    plain = load_report(path)
    return None if plain is None else {key: plain.get(key) for key in _KEPT}


def _status(
    kind: str, plain: Mapping[str, Any], changed: float
) -> DrillStatus | VerifyStatus | None:
    at = time_of(plain, changed)
    flow, ok, records = flow_of(plain), plain["ok"], plain["records"]
    if flow is None or not (ok is None or isinstance(ok, bool)):
        return None
    if kind == "verify":
        return VerifyStatus(flow, at, ok, records) if isinstance(records, int) else None
    measured = plain["measured"] if isinstance(plain["measured"], dict) else {}
    rpo, rto = (_seconds(measured.get(key)) for key in ("rpo_seconds", "rto_seconds"))
    return DrillStatus(flow, at, bool(ok), rpo, rto)


def _seconds(value: object) -> float | None:
    return value if isinstance(value, int | float) else None
