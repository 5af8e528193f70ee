"""The reports of drills and verifies in a folder: `KIND-TIME.json`, and for some a page, `KIND-TIME.html`.

Names come from a browser: a name that no report can have is not looked up, and a link is not followed.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from heliograph.errors import MirrorError

REPORTS = Path("drill-reports")
"""Where commands keep reports, and pages look for them, by default."""
LARGEST = 20 << 20
_LISTED = 200
_SUMMARY = 500
_NAME = re.compile(r"(drill|verify|wipe)-[0-9A-Za-z._-]{1,200}")


class NoSuchReport(MirrorError):
    """A name that no report has."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no report {self.name[:200]!r}. /api/reports lists them."


class ReportTooLarge(MirrorError):
    """A file with more bytes than a report has."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name}: it has more than {LARGEST >> 20} MB. Open it where it is kept."


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A report in short. `flow` is None for a drill on clusters of its own; `page`: it has one."""

    name: str
    kind: str
    flow: str | None
    at_ms: int
    ok: bool | None
    summary: str
    page: bool = False


class Shelf:
    """The reports of a folder; what is listed of each is read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[str, int], ReportEntry | None] = {}

    def entries(self) -> list[ReportEntry]:
        """Return the 200 newest, newest first. A file that holds no report is left out."""
        try:
            files = {entry.name for entry in os.scandir(self.folder) if not entry.is_symlink()}
        except OSError:
            return []
        known = {}
        for name, changed_ns in self._newest(files):
            key = name, changed_ns
            known[key] = self._known[key] if key in self._known else self._look(name, changed_ns)
        self._known = known
        found = [replace(its, page=f"{its.name}.html" in files) for its in known.values() if its]
        return sorted(found, key=lambda its: (-its.at_ms, its.name))

    def read(self, name: str) -> bytes:
        """Return the JSON of a report."""
        return self._read(name, "json")

    def read_page(self, name: str) -> bytes:
        """Return the page of a report that has one."""
        return self._read(name, "html")

    def _read(self, name: str, suffix: str) -> bytes:
        if not _NAME.fullmatch(name):
            raise NoSuchReport(name)
        try:
            return read_bounded(self.folder / f"{name}.{suffix}")
        except OSError as exc:
            raise NoSuchReport(name) from exc

    def _newest(self, files: set[str]) -> Iterator[tuple[str, int]]:
        """Yield those that are newest by their names, and when each file was changed."""
        names = (file.removesuffix(".json") for file in files if file.endswith(".json"))
        reports = [name for name in names if _NAME.fullmatch(name)]
        for name in sorted(reports, key=_stamp, reverse=True)[:_LISTED]:
            try:
                yield name, (self.folder / f"{name}.json").stat().st_mtime_ns
            except OSError:
                continue  # it has just been deleted

    def _look(self, name: str, changed_ns: int) -> ReportEntry | None:
        plain = load_report(self.folder / f"{name}.json")
        ok = None if plain is None else plain.get("ok")
        if plain is None or not (ok is None or isinstance(ok, bool)):
            return None
        kind = "verify" if name.startswith("verify") else "drill"
        summary = plain.get("summary" if kind == "verify" else "verdict")
        at = time_of(plain, changed_ns / 1e9)
        flow = flow_of(plain)
        return ReportEntry(
            name, kind, flow and _clean(flow), round(at * 1000), ok, _clean(str(summary or ""))
        )


def read_bounded(path: Path) -> bytes:
    """Return the content of a plain file; OSError for anything else, also for a link."""
    with open(path, "rb", opener=_open_plainly) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileNotFoundError(path)
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ReportTooLarge(path.name)
    return content


def _open_plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def load_report(path: Path) -> dict[str, Any] | None:
    """Return a report; None for a file that holds none."""
    try:
        plain = json.loads(read_bounded(path), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError, ReportTooLarge):
        return None
    return plain if isinstance(plain, dict) else None


def time_of(plain: Mapping[str, Any], changed: float) -> float:
    """Return when a drill began or a verify ended; a report that does not say has its file's time."""
    told = plain.get("began") or plain.get("ended")
    try:
        return datetime.fromisoformat(told).timestamp() if isinstance(told, str) else changed
    except (ValueError, OverflowError):
        return changed


def flow_of(plain: Mapping[str, Any]) -> str | None:
    measured = plain.get("measured")
    flow = plain.get("flow") or (measured.get("flow") if isinstance(measured, dict) else None)
    return flow if isinstance(flow, str) else None


def _stamp(name: str) -> str:
    return name.partition("-")[2]


def _clean(text: str) -> str:
    """Return what can be written as UTF-8: JSON may hold halves of characters."""
    return text[:_SUMMARY].encode(errors="replace").decode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # Python reads NaN, and no browser does
