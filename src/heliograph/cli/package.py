"""`heliograph package`: our code and what it needs, in one file that Spark ships to its executors."""

import time
from pathlib import Path
from typing import Annotated

import typer

from heliograph.spark.bundle import build_archive
from heliograph.spark.masters import ENVIRONMENT, python_name


def package(
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path(
        f"{ENVIRONMENT}.tar.gz"
    ),
) -> None:
    """Build the archive that executors of a Spark cluster run; they need the same minor version of Python."""
    began = time.monotonic()
    built = build_archive(output)
    took = time.monotonic() - began
    print(
        f"{built.path}: {built.packed_bytes / 1e6:.0f} MB, unpacked {built.unpacked_bytes / 1e6:.0f} MB, "
        f"for {python_name()}, in {took:.0f} s"
    )
    print(f"holds {', '.join(built.contents)}")
    print(f"use it with: spark.archives={built.path.resolve()}#{ENVIRONMENT}")
