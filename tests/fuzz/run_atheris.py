"""Explores the parsers by coverage, with atheris, which is not among the requirements: pip install atheris.

    PYTHONPATH=src:. python tests/fuzz/run_atheris.py [SECONDS] [PARSER ...]

Without names all parsers of the wire share one run of 60 s: the first byte of an input chooses. A crash
leaves its input in crash-*, in the folder it was started in.
"""

import struct
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import atheris

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with atheris.instrument_imports(include=["heliograph"]):
        from tests.fuzz.parsers import PARSERS, Parser

_SECONDS = 60
_NOT_OF_THE_WIRE = ("access", "providers", "jks")


def chosen(names: Sequence[str]) -> list[Parser]:
    known = {parser.name: parser for parser in PARSERS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no parser {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or [
        parser for name, parser in known.items() if name not in _NOT_OF_THE_WIRE
    ]


def main(arguments: Sequence[str]) -> None:
    seconds = int(arguments[0]) if arguments else _SECONDS
    parsers = chosen(arguments[1:])

    def read(data: bytes) -> None:
        parser = parsers[data[0] % len(parsers)] if data else parsers[0]
        with suppress(*parser.errors):
            parser.run(data[1:])

    with tempfile.TemporaryDirectory() as folder:
        for number, parser in enumerate(parsers):
            for at, seed in enumerate(parser.seeds):
                (Path(folder) / f"{number}-{at}").write_bytes(struct.pack("B", number) + seed)
        options = [
            f"-max_total_time={seconds}",
            "-max_len=4096",
            "-timeout=10",
            "-rss_limit_mb=2048",
        ]
        atheris.Setup([sys.argv[0], *options, folder], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
