"""The network between the mirror and one side only, while load and consumers reach both."""

from collections.abc import Callable
from datetime import timedelta

from lab.faults.bench import SIDES, Scene, pause
from lab.faults.fault import Fault, on_both_sides
from lab.proxy import CUT, DEAF, GOOD, ONE_WAY, Line

LASTS = 20
LONG = 40
SLOW = Line(delay=timedelta(milliseconds=100), rate=2_000_000)


def spoil(line: Line, lasts: float) -> Callable[[Scene, str], None]:
    """Return a function that degrades the line to a side for a while."""

    def act(scene: Scene, side: str) -> None:
        proxy = scene.bench.proxy(side)
        scene.say(f"the line to the {side} is bad for {lasts:.0f} s")
        proxy.set_line(line)
        pause(lasts)
        if line == ONE_WAY:
            proxy.reset()  # answers sent meanwhile never arrive
        proxy.set_line(GOOD)
        scene.say("the line is good again")
        scene.recover()

    return act


def reset_again_and_again(scene: Scene, side: str) -> None:
    scene.say(f"every connection to the {side} is reset once a second for {LASTS} s")
    for _ in range(LASTS):
        scene.bench.proxy(side).reset()
        pause(1)
    scene.recover()


def slow_down(scene: Scene) -> None:
    scene.say(f"the lines to both sides are slow for {LASTS} s")
    for side in SIDES:
        scene.bench.proxy(side).set_line(SLOW)
    pause(LASTS)
    for side in SIDES:
        scene.bench.proxy(side).set_line(GOOD)
    scene.say("the lines are good again")
    scene.recover()


def _line(name: str, sentence: str, line: Line, lasts: int, common: str = "") -> list[Fault]:
    told = f"line to the {{side}} {sentence} for {lasts} s"
    return on_both_sides(name, told, spoil(line, lasts), common)


FAULTS = (
    *_line("cut", "cut (reset, then refused)", CUT, LASTS, common="source"),
    *_line("hang", "hanging (connected, silent)", DEAF, LASTS),
    *_line("long-hang", "hanging (connected, silent)", DEAF, LONG),
    *_line("one-way", "without answers (one way), then reset", ONE_WAY, LASTS),
    *on_both_sides(
        "resets",
        f"every connection to the {{side}} reset once a second for {LASTS} s",
        reset_again_and_again,
    ),
    Fault("slow", f"line to both sides of 100 ms and 2 MB/s for {LASTS} s", slow_down),
)
