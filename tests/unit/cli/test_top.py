"""The command against an app that answers as the overview does, and on a terminal of its own."""

import fcntl
import io
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from rich.console import Console
from typer.testing import CliRunner, Result

from heliograph.cli.main import app
from heliograph.cli.rest import ConnectApi, NobodyAnswers
from heliograph.cli.top import Mirror
from heliograph.cli.top_board import Board, Key, Look, split_keys
from heliograph.cli.top_screen import draw, draw_once, sparkline
from heliograph.connect.herder import RestError
from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.web.server import Server

HOSTILE = "\x1b[31mevil\u202e[bold]\n\ud800"
ROOT = Path(__file__).parents[3]


def flow(name: str, **changes: Any) -> dict[str, Any]:
    source, _, target = name.partition("->")
    return {
        "flow": name,
        "source": source,
        "target": target,
        "state": "RUNNING",
        "health": "good",
        "reason": None,
        "topics": 12,
        "partitions": 40,
        "records": 1_000_000,
        "bytes": 100_000_000,
        "rate": 12_345.6,
        "byte_rate": 2_340_000.0,
        "lag": 1234,
        "lag_seconds": 0.42,
        "rpo_seconds": 0.5,
        "rpo_worst_seconds": 61.0,
        "p50_ms": 5,
        "p99_ms": 120,
        "stopped": 0,
        "refused": 0,
        "waiting": 0,
        "groups": 20,
        "groups_skipped": 3,
        "held_since_ms": None,
        "connector": None,
        "last_verify": None,
        "last_drill": None,
        **changes,
    }


def event(number: int, message: str = "something happened") -> dict[str, Any]:
    when = "2026-11-16T02:03:04.678+00:00"
    return {"number": number, "time": when, "level": "WARNING", "message": message}


def overview(*flows: dict[str, Any]) -> dict[str, Any]:
    clusters = [
        {"alias": "A", "health": "good", "reason": None},
        {"alias": "B", "health": "bad", "reason": "no broker answers"},
    ]
    return {"time_ms": 1_794_794_584_678, "clusters": clusters, "flows": list(flows)}


def board(*flows: dict[str, Any], events: int = 0) -> Board:
    made = Board("http://127.0.0.1:8083")
    told = tuple(event(number) for number in range(1, events + 1))
    made.take(Look(overview(*flows), "4.3.1-heliograph", told))
    return made


def printed(shown: Any, width: int = 200) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard").print(shown)
    return file.getvalue()


def plain(shown: Any, width: int = 200) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", printed(shown, width)).splitlines()


class Told:
    """What the stub tells, to be changed by a test."""

    def __init__(self) -> None:
        self.overview = overview(flow("A->B"), flow("B->A", state="FAILED", health="bad"))
        self.events = [event(1)]
        self.asked: list[str] = []


def stub(told: Told) -> FastAPI:
    made = FastAPI()

    @made.get("/api/overview")
    def get_overview() -> dict[str, Any]:
        return told.overview

    @made.get("/api/me")
    def get_me() -> dict[str, Any]:
        return {"name": None, "role": "failover", "read_only": False, "version": "4.3.1-stub"}

    @made.get("/api/events")
    def list_events(after: int = 0) -> list[dict[str, Any]]:
        return [its for its in told.events if its["number"] > after]

    @made.get("/api/flows/{flow}/topics")
    def list_topics(flow: str, sort: str, limit: int) -> dict[str, Any]:
        told.asked.append(flow)
        assert (sort, limit) == ("lag", 20)
        topic = {"topic": f"orders of {flow}", "remote_topic": "A.orders", "partitions": 3}
        return {"total": 2000, "topics": [{**topic, "records": 9, "lag": 7777, "stopped": 0}]}

    return made


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def url(told: Told) -> Iterator[str]:
    server = Server(stub(told))
    server.start()
    yield server.url
    server.stop()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["top", *arguments])


def test_one_table_is_printed_where_there_is_no_terminal(url: str) -> None:
    result = call("--url", url)
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith(f"heliograph top   {url}   4.3.1-stub   ")
    assert lines[1] == "clusters   ● A   ✖ B (no broker answers)"
    assert re.split(r"\s{2,}", lines[4].strip()) == [
        *("A->B", "● RUNNING", "12,346", "2.3", "1,234", "0.4", "0.5 / 61", "5 / 120"),
        *("12", "0", "17 / 3"),
    ]
    assert lines[5].startswith("B->A  ✖ FAILED")
    assert call("--url", url, "--once").output.splitlines()[3:] == lines[3:]


def test_the_overview_is_printed_as_it_came(url: str, told: Told) -> None:
    assert json.loads(call("--url", url, "--json").output) == told.overview


def test_nobody_who_answers_is_one_sentence_and_exit_3() -> None:
    result = call("--url", f"http://{LOOPBACK}:{pick_port()}")
    assert isinstance(result.exception, NobodyAnswers)
    assert result.exception.exit_code == 3


def test_who_is_no_heliograph_is_told_apart() -> None:
    server = Server(FastAPI())
    server.start()
    try:
        result = call("--url", server.url)
    finally:
        server.stop()
    assert isinstance(result.exception, RestError)
    assert "does not answer /api/overview as a heliograph" in str(result.exception)


def test_events_go_on_where_they_were_and_begin_anew_with_a_new_process(
    url: str, told: Told
) -> None:
    mirror = Mirror(ConnectApi(url))

    def numbers() -> list[int]:
        return [its["number"] for its in mirror.look(None).events]

    told.events = [event(number) for number in (1, 2, 3)]
    assert numbers() == [1, 2, 3]
    assert numbers() == []
    told.events.append(event(4))
    assert numbers() == [4]
    told.events = [event(1)]
    assert (numbers(), numbers()) == ([1], [])
    told.events = [event(1, "another"), event(2)]
    assert (numbers(), numbers()) == ([1, 2], [])
    told.events = [event(number) for number in range(700, 703)]
    assert (numbers(), numbers()) == ([700, 701, 702], [])


def test_no_name_reaches_the_terminal_as_more_than_text() -> None:
    shown = board(flow(HOSTILE, reason=HOSTILE, state=HOSTILE))
    assert shown.look is not None
    shown.take(Look({**shown.look.overview, "clusters": [{"alias": HOSTILE}]}, HOSTILE))
    shown.events.append(event(1, HOSTILE))
    shown.miss(HOSTILE, 0)
    screens = [draw(shown, 200, 30), draw_once(shown, 200)]
    shown.press(Key.TOPICS)
    shown.topics = {"topics": [{"topic": HOSTILE, "remote_topic": HOSTILE}], "total": HOSTILE}
    for screen in (*screens, draw(shown, 200, 30)):
        text = printed(screen)
        assert r"\x1b[31mevil\u202e[bold]\n\ud800" in text
        assert "\x1b[31mevil" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("flows", [0, 1, 60])
def test_a_screen_is_filled_and_never_overrun(width: int, flows: int) -> None:
    shown = board(*(flow(f"A{n}->B", reason="late" * 99) for n in range(flows)), events=99)
    for topics in (False, True):
        shown.shows_topics = topics
        shown.topics = {"total": 99, "topics": [{"topic": f"t{n}"} for n in range(99)]}
        lines = plain(draw(shown, width, 24), width)
        assert len(lines) == 24
        assert max(map(len, lines)) <= width
        assert lines[-1].startswith("q quit")


def test_on_a_narrow_screen_the_less_important_is_left_out() -> None:
    shown = board(flow("A->B"))
    shown.take(Look(overview(flow("A->B")), "1"))
    narrow, wide = plain(draw(shown, 60, 20), 60)[3], plain(draw(shown, 160, 20), 160)[3]
    assert narrow.split() == ["flow", "state", "rec/s", "MB/s", "lag", "lag", "s", "RPO/worst", "s"]
    assert {"topics", "stopped", "ok/skipped", "late"} <= set(wide.split())


def test_what_is_not_known_is_a_question_mark() -> None:
    unknown = {key: None for key in flow("A->B") if key != "flow"}
    (line,) = [
        its for its in plain(draw_once(board(unknown | {"flow": "A->B"}), 200)) if "->" in its
    ]
    assert line.split() == ["A->B", *"??", *"????", *"?/?", *"?/?", *"???"]


def test_the_selected_flow_is_always_on_the_screen() -> None:
    shown = board(*(flow(f"A{n}->B") for n in range(60)))
    for _ in range(70):
        shown.press(Key.DOWN)
    assert shown.selected == "A59->B"
    assert any(its.startswith("A59->B") for its in plain(draw(shown, 100, 20), 100))
    for _ in range(70):
        shown.press(Key.UP)
    assert any(its.startswith("A0->B") for its in plain(draw(shown, 100, 20), 100))


def test_a_flow_that_goes_takes_its_selection_along() -> None:
    shown = board(flow("A->B"), flow("B->A"))
    shown.press(Key.DOWN)
    shown.take(Look(overview(flow("A->B"), flow("B->A"), flow("C->A")), "1"))
    assert shown.selected == "B->A"
    shown.take(Look(overview(flow("A->B")), "1"))
    assert (shown.selected, list(shown.rates)) == ("A->B", ["A->B"])
    empty = board()
    empty.press(Key.UP)
    assert empty.selected is None


def test_topics_that_come_late_are_not_shown_for_another_flow() -> None:
    shown = board(flow("A->B"), flow("B->A"))
    shown.press(Key.TOPICS)
    assert shown.lacks_topics
    shown.press(Key.DOWN)
    both = overview(flow("A->B"), flow("B->A"))
    shown.take(Look(both, "1", topics={"total": 1}, topics_of="A->B"))
    assert shown.lacks_topics
    shown.take(Look(both, "1", topics={"total": 2}, topics_of="B->A"))
    assert shown.topics == {"total": 2}


def test_the_interval_has_steps_and_ends() -> None:
    shown = Board("http://here", interval=3)
    found = []
    for key in (Key.FASTER,) * 4 + (Key.SLOWER,) * 7:
        shown.press(key)
        found.append(shown.interval)
    assert found == [2, 1, 0.5, 0.5, 1, 2, 5, 10, 30, 60, 60]


def test_a_silence_is_told_from_its_beginning_until_somebody_answers() -> None:
    shown = board(flow("A->B"))
    shown.miss("connection refused", 100)
    shown.miss("timed out", 200)
    assert shown.silent_since == 100
    assert plain(draw(shown, 100, 20), 100)[0].startswith("no answer since ")
    shown.take(Look(overview(), "1"))
    assert "no answer" not in plain(draw(shown, 100, 20), 100)[0]


def test_a_sparkline_is_as_high_as_its_highest_and_has_gaps() -> None:
    assert sparkline([0, 50, None, 100]) == "▁▅ █"
    assert sparkline([0, 0, None]) == "▁▁ "
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    ("typed", "keys", "rest"),
    [
        (b"pq", [Key.TOPICS, Key.QUIT], b""),
        (b"\x1b[A\x1bOBj", [Key.UP, Key.DOWN, Key.DOWN], b""),
        (b"x\x1b[5~+", [Key.FASTER], b""),
        (b"-\x1b[", [Key.SLOWER], b"\x1b["),
        (b"", [], b""),
    ],
)
def test_keys_are_read_also_in_pieces(typed: bytes, keys: list[Key], rest: bytes) -> None:
    assert split_keys(typed) == (keys, rest)


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "heliograph", "top", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src", "TERM": "xterm-256color"},
        )
        self.seen = ""

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self.master, keys.encode())

    def shows(self, text: str, within: float = 20) -> None:
        """Wait until the text is written."""
        until = time.monotonic() + within
        while text not in self.seen:
            readable, _, _ = select.select([self.master], [], [], max(until - time.monotonic(), 0))
            assert readable, f"no {text!r} in {self.seen[-3000:]!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def ends(self) -> int:
        """Wait until it has ended and left the terminal as it was."""
        self.shows("\x1b[?1049l")
        code = self.process.wait(20)
        assert termios.tcgetattr(self.slave) == self.before
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def port() -> int:
    return pick_port()


def test_it_runs_on_a_terminal_through_a_restart_of_the_mirror(told: Told, port: int) -> None:
    url = f"http://{LOOPBACK}:{port}"
    server = Server(stub(told), LOOPBACK, port)
    server.start()
    terminal = Terminal("--url", url, "--interval", "0.3")
    try:
        terminal.shows("\x1b[?1049h")
        terminal.shows("something happened")
        terminal.type("p")
        terminal.shows("orders of A->B")
        terminal.type("\x1b[B")
        terminal.shows("orders of B->A")
        terminal.type("p")
        server.stop()
        terminal.shows("no answer since")
        told.events = [event(1, "it runs again")]
        server = Server(stub(told), LOOPBACK, port)
        server.start()
        terminal.shows("it runs again")
        terminal.type("q")
        assert terminal.ends() == 0
        assert set(told.asked) == {"A->B", "B->A"}
    finally:
        terminal.close()
        server.stop()


def test_a_terminal_is_given_back_after_sigterm_too(url: str) -> None:
    terminal = Terminal("--url", url)
    try:
        terminal.shows("something happened")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ends() == 128 + signal.SIGTERM
    finally:
        terminal.close()
