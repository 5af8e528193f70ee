"""`heliograph top`: 0 it was quit or told once, 1 refused, 2 wrong use, 3 nobody answers."""

import json
import os
import queue
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.live import Live

from heliograph.cli.credentials import Asked, asks_a_worker
from heliograph.cli.rest import ConnectApi, NobodyAnswers
from heliograph.cli.top_board import Board, Key, Look, number, objects, split_keys
from heliograph.cli.top_screen import draw, draw_once
from heliograph.connect.herder import RestError
from heliograph.errors import MirrorError

_PATIENCE = timedelta(seconds=10)
_TOPICS = 20
_REDRAW = 1.0
_TICK = 0.2
_WIDE = 200


@asks_a_worker
def top(
    asked: Asked,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, max=3600, help="How often to look.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
) -> None:
    """Show the flows of a running mirror, live; q quits. Not on a terminal it prints one table."""
    mirror = Mirror(asked.open())
    if asked.as_json:
        print(json.dumps(mirror.overview(), indent=2))
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    board = Board(mirror.url, interval)
    board.take(mirror.look(None))
    live = sys.stdin.isatty() and console.is_terminal and not console.is_dumb_terminal
    if once or not live:
        console.print(draw_once(board, console.width))
        return
    _watch(mirror, board, console)


class Mirror:
    """A running mirror, asked for what is to be shown; one look at a time."""

    def __init__(self, api: ConnectApi) -> None:
        self.url = api.url
        self._api = api
        self._version: str | None = None
        self._last_event: dict[str, Any] | None = None

    def look(self, topics_of: str | None) -> Look:
        """Ask for everything, and for the topics of a flow."""
        try:
            overview = self.overview()
            version = self._version = self._version or str(self._ask("/api/me").get("version"))
            topics = None if topics_of is None else self._topics(topics_of)
            return Look(overview, version, tuple(self._events()), topics, topics_of)
        except MirrorError:
            self._version = None  # whoever answers next may be another
            raise

    def overview(self) -> dict[str, Any]:
        return self._ask("/api/overview")

    def _topics(self, flow: str) -> dict[str, Any]:
        """Return the topics that are most behind; none of a flow that has just gone."""
        try:
            return self._ask(f"/api/flows/{quote(flow, safe='')}/topics?sort=lag&limit={_TOPICS}")
        except RestError as exc:
            if exc.status != HTTPStatus.NOT_FOUND:
                raise
            return {}

    def _events(self) -> list[dict[str, Any]]:
        """Return what is new. The newest known is asked for again: who lacks it is another process."""
        last = self._last_event
        events = self._events_after(0 if last is None else int(number(last.get("number")) or 0) - 1)
        if last is not None:
            events = events[1:] if events[:1] == [last] else self._events_after(0)
        self._last_event = events[-1] if events else last
        return events

    def _events_after(self, number_of: int) -> list[dict[str, Any]]:
        told = self._api.get(f"/api/events?after={number_of}", _PATIENCE)
        return [dict(event) for event in objects(told)]

    def _ask(self, path: str) -> dict[str, Any]:
        try:
            answer = self._api.get(path, _PATIENCE)
        except RestError as exc:
            raise self._stranger(path) if exc.status == HTTPStatus.NOT_FOUND else exc from exc
        if not isinstance(answer, dict):
            raise self._stranger(path)
        return answer

    def _stranger(self, path: str) -> RestError:
        return RestError(
            HTTPStatus.NOT_FOUND,
            f"{self.url} does not answer {path} as a heliograph of this version does. "
            "Check that --url is the address of one.",
        )


def _watch(mirror: Mirror, board: Board, console: Console) -> None:
    """Show the board until somebody quits. Looks are taken on another thread, so keys never wait."""
    answers: queue.SimpleQueue[Look | BaseException] = queue.SimpleQueue()
    keyboard = sys.stdin.fileno()
    asking, next_look, next_draw = False, time.monotonic() + board.interval, 0.0
    typed = b""
    with (
        _keys_at_once(keyboard),
        Live(console=console, screen=True, auto_refresh=False, transient=True) as screen,
    ):
        while True:
            now = time.monotonic()
            if not asking and now >= next_look:
                asking = True
                _look_aside(mirror, board.topics_of, answers)
            if now >= next_draw:
                screen.update(draw(board, *console.size), refresh=True)
                next_draw = now + _REDRAW
            readable, _, _ = select.select([keyboard], [], [], _TICK)
            if readable:
                read = os.read(keyboard, 1024)
                keys, typed = split_keys(typed + read)
                if not read or Key.QUIT in keys:
                    return
                for key in keys:
                    board.press(key)
                next_draw = 0.0
                next_look = 0.0 if board.lacks_topics else next_look
            while not answers.empty():
                _take(board, answers.get())
                wait = 0 if board.lacks_topics else board.interval
                asking, next_look, next_draw = False, time.monotonic() + wait, 0.0


def _take(board: Board, answer: Look | BaseException) -> None:
    match answer:
        case Look():
            board.take(answer)
        case NobodyAnswers():
            board.miss(answer.reason, time.time())
        case MirrorError():
            board.miss(str(answer), time.time())
        case _:
            raise answer


def _look_aside(
    mirror: Mirror, topics_of: str | None, answers: "queue.SimpleQueue[Look | BaseException]"
) -> None:
    """Take a look on a thread that a quit need not wait for; what goes wrong there is an answer too."""

    def look() -> None:
        try:
            answers.put(mirror.look(topics_of))
        except BaseException as exc:  # noqa: BLE001 - it is raised where answers are taken
            answers.put(exc)

    threading.Thread(target=look, name="look", daemon=True).start()


@contextmanager
def _keys_at_once(terminal: int) -> Iterator[None]:
    """Get each key as it is pressed, unseen; the terminal is as it was afterwards, also after SIGTERM."""
    before = termios.tcgetattr(terminal)
    handlers = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, _quit),
        signal.SIGHUP: signal.signal(signal.SIGHUP, _quit),
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_IGN),
    }
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        for number_of, handler in handlers.items():
            signal.signal(number_of, handler)


def _quit(number_of: int, _: object) -> None:
    sys.exit(128 + number_of)
