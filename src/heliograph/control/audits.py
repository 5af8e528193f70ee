"""The last drill and the last verify of each flow, from the reports that the commands keep in a folder.

A report is `drill-*.json` or `verify-*.json`. Where commands run on another machine, its folder is to be shared.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOOKED_AT = 50


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
                plain = read[key] = self._read[key] if key in self._read else _load(path)
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


def _load(path: Path) -> dict[str, Any] | None:
    """Return what is kept of a report; None for a file that is none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(plain, dict):
        return None
    return {key: plain.get(key) for key in ("flow", "ok", "records", "measured")}


def _status(kind: str, plain: dict[str, Any], at: float) -> DrillStatus | VerifyStatus | None:
    measured = plain["measured"] if isinstance(plain["measured"], dict) else {}
    flow = plain["flow"] or measured.get("flow")
    if not isinstance(flow, str):
        return None
    if kind == "verify":
        return VerifyStatus(flow, at, plain["ok"], int(plain["records"] or 0))
    return DrillStatus(
        flow, at, bool(plain["ok"]), measured.get("rpo_seconds"), measured.get("rto_seconds")
    )
