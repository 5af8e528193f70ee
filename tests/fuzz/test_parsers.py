"""Whatever bytes come, a parser returns what they hold or raises the error that it owns up to."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from heliograph.observe.reports import Shelf, load_report
from tests.fuzz.parsers import LIMIT, PARSERS, Parser
from tests.fuzz.strategies import hostile

_SLACK_BYTES = 3 * LIMIT
_names = [parser.name for parser in PARSERS]


def _read(parser: Parser, data: bytes) -> None:
    text = ""
    try:
        parser.run(data)
    except parser.errors as exc:
        text = str(exc)
    assert len(text) < 5000, "an error's text is not a copy of what came"


def _explore(parser: Parser, examples: int, *, same: bool) -> None:
    @settings(
        max_examples=examples,
        derandomize=same,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(hostile(parser.seeds))
    def read(data: bytes) -> None:
        _read(parser, data)

    read()


@pytest.mark.parametrize("parser", PARSERS, ids=_names)
def test_a_parser_reads_what_is_valid(parser: Parser) -> None:
    for seed in parser.seeds:
        _read(parser, seed)


@pytest.mark.parametrize("parser", PARSERS, ids=_names)
def test_spoilt_bytes_are_read_or_refused(parser: Parser) -> None:
    _explore(parser, 40, same=True)


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("parser", PARSERS, ids=_names)
def test_many_spoilt_bytes_are_read_or_refused(parser: Parser) -> None:
    _explore(parser, int(os.environ.get("FUZZ_EXAMPLES", "5000")), same=False)


@pytest.mark.parametrize("parser", PARSERS, ids=_names)
def test_every_cut_is_read_or_refused(parser: Parser) -> None:
    for seed in parser.seeds:
        for end in range(len(seed)):
            _read(parser, seed[:end])


@pytest.mark.parametrize("parser", PARSERS, ids=_names)
def test_memory_and_time_follow_the_size_of_what_came(parser: Parser) -> None:
    """Feed the bytes that make naive parsers explode: long, repeated, nested."""
    size = 30_000
    patterns = [
        b"\xff",
        b"\x80",
        b"\x00",
        b"\x01",
        b"\x7f",
        b"[",
        b"${",
        b":",
        b"9",
        b'"',
        b"/*",
        b"\\",
    ]
    patterns += [seed for seed in parser.seeds if seed]
    for pattern in patterns:
        data = pattern * (size // len(pattern))
        tracemalloc.start()
        began = time.process_time()
        try:
            _read(parser, data)
            taken, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert taken < 2, f"{parser.name}: {taken:.1f} s for {size} bytes of {pattern[:20]!r}"
        assert peak < parser.most * size + _SLACK_BYTES, (
            f"{parser.name}: {peak} of {pattern[:20]!r}"
        )


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    content=hostile([b'{"began":"2026-01-01T00:00:00Z","ok":true,"verdict":"good","flow":"A->B"}'])
)
def test_a_file_among_the_reports_is_listed_or_left_out(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder: Path = tmp_path_factory.mktemp("reports")
    (folder / "drill-1.json").write_bytes(content)
    load_report(folder / "drill-1.json")
    for entry in Shelf(folder).entries():
        str(entry).encode()


@pytest.mark.parametrize(
    "content",
    [
        b'{"ok":true,"verdict":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"ok":true,"began":"9999-12-31T23:59:59-23:59"}',
        b'{"ok":true,"began":"0001-01-01T00:00:00+23:59"}',
        b'{"ok":true,"verdict":"\\ud800","flow":"\\udfff"}',
    ],
    ids=["deep", "late", "early", "half characters"],
)
def test_a_hostile_report_is_listed_or_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "drill-1.json").write_bytes(content)
    for entry in Shelf(tmp_path).entries():
        str(entry).encode()
