"""Commands of heliograph, run as an operator types them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parent.parent


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "heliograph", *arguments]


def run_command(*arguments: str, within: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code."""
    return subprocess.run(
        command_line(*arguments),
        cwd=_ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )


@contextmanager
def start_command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command, and end it with the block if it still runs; its standard error can be read."""
    process = subprocess.Popen(
        command_line(*arguments),
        cwd=_ROOT,
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "src"}
