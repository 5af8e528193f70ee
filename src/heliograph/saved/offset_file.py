"""Positions in a file, for a standalone worker: a line per key, key and value as Connect's JSON.

Connect's own file is a serialised Java map, which only Java can read; a file that is not ours is refused
rather than overwritten.
"""

import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from heliograph.errors import ConfigError
from heliograph.tables.append import PATIENCE
from heliograph.tables.table import Rows

log = logging.getLogger(__name__)

_HEAD = "heliograph offsets 1"


class OffsetFile:
    """A table in a file; every write replaces it whole, or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_written = False

    def ensure(
        self, partitions: int, replication_factor: int, within: timedelta = PATIENCE
    ) -> bool:
        """Check that the file can be used; it need not exist.

        Return whether it was deleted since it was written: what it held is gone.
        """
        del partitions, replication_factor, within
        self.read()
        is_gone = self._is_written and not self._path.exists()
        if is_gone:
            log.error("%s is gone and is made again. Check who deleted it.", self._path)
        self._is_written = self._path.exists()
        return is_gone

    def read(self) -> dict[bytes, bytes]:
        try:
            head, *lines = self._path.read_bytes().decode().splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, ValueError) as exc:
            raise self._unusable(str(exc)) from exc
        if head != _HEAD:
            raise self._unusable("it was written by somebody else, such as Java's Connect")
        rows = (line.partition("\t") for line in lines)
        return {key.encode(): value.encode() for key, _, value in rows}

    def find(self) -> Rows:
        """Do as `read`: a file is read as a whole."""
        return Rows(self.read(), {})

    def place_of(self, key: bytes) -> int:
        """Return the partition of a key: a file has only one."""
        del key
        return 0

    def write(self, rows: Mapping[bytes, bytes | None], within: timedelta = PATIENCE) -> None:
        """Store `rows` in addition to the existing ones; a None deletes its key."""
        del within
        kept = {**self.read(), **rows}
        lines = [
            f"{key.decode()}\t{value.decode()}" for key, value in kept.items() if value is not None
        ]
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("w") as file:
                file.write("\n".join([_HEAD, *lines, ""]))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            self._is_written = True
        except OSError as exc:
            raise self._unusable(str(exc)) from exc

    def _unusable(self, why: str) -> ConfigError:
        return ConfigError(
            f"offset.storage.file.filename: {self._path} cannot be used ({why}). Name another file."
        )
