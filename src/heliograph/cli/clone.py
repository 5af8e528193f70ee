"""Commands that need the clone: its tests' clusters, and what only developers install."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from heliograph.errors import Missing

_HOME = Path(__file__).parents[3]


class NeedsClone(Missing):
    """A command of the clone, called where there is none."""

    def __init__(self, command: str, lacking: str) -> None:
        super().__init__(command, lacking)
        self.command = command
        self.lacking = lacking

    def __str__(self) -> str:
        return (
            f"{self.command}: {self.lacking} is not here. "
            f"Run ./heliograph {self.command} in a clone of heliograph, which makes what it needs."
        )


def import_from_clone(command: str, module: str, home: Path = _HOME) -> ModuleType:
    """Return a module that lies beside `src` in the clone."""
    if not (home / Path(*module.split("."))).with_suffix(".py").is_file():
        raise NeedsClone(command, module)
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        raise NeedsClone(command, exc.name or module) from exc
