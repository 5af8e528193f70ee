"""Where heliograph keeps what it fetched (cache) and what its embedded clusters hold (data)."""

import os
from pathlib import Path


def cache_folder() -> Path:
    return _folder("HELIOGRAPH_CACHE", "XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    return _folder("HELIOGRAPH_HOME", "XDG_DATA_HOME", ".local/share")


def _folder(own: str, shared: str, below_home: str) -> Path:
    if given := os.environ.get(own):
        return Path(given).expanduser().absolute()
    if given := os.environ.get(shared):
        return Path(given).expanduser().absolute() / "heliograph"
    return Path.home() / below_home / "heliograph"
