"""Writes docs/rest.md: what a real Connect answers to each call, and what we do.

PYTHONPATH=src:. python tests/web/table.py > docs/rest.md
"""

import logging
import re
import sys
from collections.abc import Iterable
from itertools import groupby

from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder
from tests.web.replay import Compared, replay

_HEAD = """# The REST API and Kafka Connect's, compared

Every call of a story was made to a Kafka Connect 4.3.1 worker with the three mirror connectors, with good and bad
input (`tests/golden/connect/record.py`; the answers are in `answers.json` there), and again to heliograph
(`tests/web/replay.py`). The tables are written by `PYTHONPATH=src:. python tests/web/table.py`, and a test compares
this page with what it writes.

Same: method, status, `Location` and JSON are equal; order within objects and lists does not count, ports, ids and
times are placeholders, and a version is Connect's with ours behind it. Own words: the same but for the sentences in
`message`, `errors`, `trace` and `documentation`. Differs: on purpose, as ADR 0007 says.

Not recorded: more than one worker (409 while the group rebalances, forwarding), bodies above 1 MB (413 here), and
`tasks-config`, which Connect 4 no longer has. OpenAPI is at `/openapi.json`. Heliograph's own routes, under `/api`, are in
[api.md](api.md).
"""


def compare_all() -> list[Compared]:
    """Compare with a herder in memory: what is asked of it is Connect's, whoever keeps the connectors."""
    server = Server(make_app(InMemoryHerder()))
    server.start()
    before = logging.root.level
    logging.root.setLevel(logging.INFO)  # as a worker's is
    try:
        return list(replay(server.url, "127.0.0.1:9092", "127.0.0.1:9093", patience=0))
    finally:
        logging.root.setLevel(before)
        server.stop()


def page(compared: list[Compared]) -> str:
    return "\n".join((_HEAD, *_calls(compared), "", *_differences(compared), ""))


def _calls(compared: list[Compared]) -> Iterable[str]:
    yield "## Calls\n"
    yield "| call | asked | Connect | heliograph | same | own words | differs |"
    yield "|---|---|---|---|---|---|---|"
    for call, group in groupby(sorted(compared, key=_call), key=_call):
        each = list(group)
        theirs = _statuses(one.theirs.status for one in each)
        ours = _statuses(one.ours.status for one in each)
        counts = [
            sum(one.verdict == verdict for one in each)
            for verdict in ("same", "own words", "differs")
        ]
        told = " | ".join(str(count or "") for count in counts)
        yield f"| `{call[1]} {call[0]}` | {len(each)} | {theirs} | {ours} | {told} |"


def _differences(compared: list[Compared]) -> Iterable[str]:
    yield "## What differs\n"
    yield "| asked | Connect | heliograph | why |"
    yield "|---|---|---|---|"
    for one in compared:
        if one.verdict == "differs":
            call = f"`{one.theirs.method} {_call(one)[0]}`"
            yield (
                f"| {call}: {one.theirs.says} | {one.theirs.status} | {one.ours.status} | {one.reason} |"
            )


def _call(one: Compared) -> tuple[str, str]:
    path = one.theirs.path.split("?")[0]
    for pattern, name in (
        (r"^(/connectors/)[^/]+", r"\1{connector}"),
        (r"(/tasks/)[^/]+", r"\1{task}"),
        (r"^(/connector-plugins/)[^/]+", r"\1{plugin}"),
        (r"^(/admin/loggers/)[^/]+", r"\1{logger}"),
    ):
        path = re.sub(pattern, name, path)
    return path, one.theirs.method


def _statuses(statuses: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(statuses))))


if __name__ == "__main__":
    sys.stdout.write(page(compare_all()))
