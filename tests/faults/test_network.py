"""The network between the mirror and one side only, while load and consumers reach both."""

from datetime import timedelta

import pytest

from heliograph.embedded.proxy import CUT, DEAF, GOOD, ONE_WAY, Line
from tests.faults.bench import Bench, pause

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

SIDES = ("source", "target")
LASTS = 20.0
SLOW = Line(delay=timedelta(milliseconds=100), rate=2_000_000)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("name", "line", "lasts"),
    [
        ("cut (reset, then refused)", CUT, LASTS),
        ("hanging (connected, silent)", DEAF, LASTS),
        ("hanging (connected, silent)", DEAF, 40.0),
        ("without answers (one way), then reset", ONE_WAY, LASTS),
    ],
    ids=["cut", "hang", "long-hang", "one-way"],
)
def test_a_bad_line_to_one_side(
    bench: Bench, side: str, name: str, line: Line, lasts: float
) -> None:
    proxy = bench.proxy(side)
    with bench.under_load(f"line to the {side} {name} for {lasts:.0f} s") as scene:
        proxy.set_line(line)
        pause(lasts)
        if line == ONE_WAY:
            proxy.reset()  # what was answered meanwhile is never heard
        proxy.set_line(GOOD)
        scene.recover()


@pytest.mark.parametrize("side", SIDES)
def test_connections_that_are_reset_again_and_again(bench: Bench, side: str) -> None:
    proxy = bench.proxy(side)
    with bench.under_load(f"every connection to the {side} reset once a second for 20 s") as scene:
        for _ in range(int(LASTS)):
            proxy.reset()
            pause(1)
        scene.recover()


def test_a_slow_and_narrow_line_to_both(bench: Bench) -> None:
    with bench.under_load("line to both sides of 100 ms and 2 MB/s for 20 s") as scene:
        for side in SIDES:
            bench.proxy(side).set_line(SLOW)
        pause(LASTS)
        for side in SIDES:
            bench.proxy(side).set_line(GOOD)
        scene.recover()
