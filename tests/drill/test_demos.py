"""The demos of seeds 000, 001, 003 and 004, each as the one command that docs/demos names."""

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.clusters import eventually
from lab.processes import command_line

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests/unit/config/seeds"
CONFIG = ROOT / "apps/demos/config"
ACCOUNT = re.compile(
    r"^(\d+) written, (.+): (\d+) lost, (\d+) repeated, (\d+) out of order\.$", re.M
)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a demo whose files are all in `folder`."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "apps"))
    return subprocess.Popen(
        [sys.executable, "-m", "demos", *arguments],
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def play(folder: Path, *arguments: str) -> str:
    """Return what a demo printed; it leaves nothing behind."""
    with start(folder, *arguments) as demo:
        printed, _ = demo.communicate(timeout=540)
    assert demo.returncode == 0, printed
    assert_nothing_is_left(folder)
    return printed


def assert_nothing_is_left(folder: Path) -> None:
    # Spark's JVM ends a moment after the process that started it.
    eventually(lambda: not processes_of(folder), 30, lambda: str(processes_of(folder)))
    assert list(folder.glob("heliograph-demo-*")) == []


def processes_of(folder: Path) -> list[str]:
    pids = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
    return [line for line in map(command_line, pids) if str(folder) in line]


def accounts_in(printed: str) -> list[tuple[int, dict[str, int]]]:
    """Return how many were written and where how many were read; none may be lost, repeated or out of order."""
    found = []
    for written, read, *wrong in ACCOUNT.findall(printed):
        assert wrong == ["0", "0", "0"], printed
        places = re.findall(r"(\d+) read on ([^,]+)", read)
        found.append((int(written), {place: int(count) for count, place in places}))
    assert "Every message was read once." in printed
    return found


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
class TestPlayed:
    def test_the_second_data_centre_goes_on_when_the_first_is_killed(self, tmp_path: Path) -> None:
        printed = play(tmp_path, "active-active")
        assert accounts_in(printed) == [
            (60, {"source": 35, "target": 25}),
            (10, {"source (from target)": 10}),
        ]
        assert re.search(r"message 35 at source\.ProductA-0@\d+ to message 59 at", printed)
        assert printed.index("kill -9 the broker of source") < printed.index("message 35 at")

    def test_the_consumer_is_switched_to_cluster_b(self, tmp_path: Path) -> None:
        printed = play(tmp_path, "dr-poc")
        assert accounts_in(printed) == [(80, {"cluster-a": 30, "cluster-b": 50})]
        assert re.search(r"message 30 at cluster-a\.hello-kafka-0@\d+ to message 79 at", printed)
        assert re.search(r"--failover_enabled, once more: .* \(no messages\)", printed)

    @pytest.mark.parametrize("custom", [False, True], ids=["default", "custom"])
    def test_the_consumer_moves_first_and_the_producer_later(
        self, tmp_path: Path, custom: bool
    ) -> None:
        printed = play(tmp_path, "migration", *(["--custom"] if custom else []))
        ((written, read),) = accounts_in(printed)
        assert read["msksource"] >= 150
        assert read["mskdest"] >= 300
        assert sum(read.values()) == written
        remote = "ExampleTopic" if custom else "msksource.ExampleTopic"
        assert re.search(rf"message \d+ at {re.escape(remote)}-\d@\d+ to message", printed)

    def test_three_connectors_are_deployed_redeployed_and_taken_away(self, tmp_path: Path) -> None:
        printed = play(tmp_path, "connect")
        assert accounts_in(printed) == [(200, {"kafka-target": 200})]
        running = re.findall(r"mm2-(\w{3})-source-0 .* RUNNING  \d RUNNING", printed)
        assert running == ["msc", "cpc", "hbc"] * 3
        assert len(re.findall(r"not deployed", printed)) == 3

    def test_one_that_is_interrupted_leaves_nothing(self, tmp_path: Path) -> None:
        with start(tmp_path, "active-active") as demo:
            assert demo.stdout is not None
            for line in demo.stdout:
                if "make topic ProductA" in line:
                    break
            demo.send_signal(signal.SIGTERM)
            printed, _ = demo.communicate(timeout=120)
        assert demo.returncode == 130, printed
        assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("active-to-active-mm2.properties", "000-active-to-active.properties"),
        ("mm2.properties", "001-mm2.properties"),
        ("connect-distributed.properties", "004-connect-distributed.properties"),
        *(
            (f"mm2/mm2-{kind}-source-0.json", f"004-mm2-{kind}-source-0.json")
            for kind in ("cpc", "hbc", "msc")
        ),
    ],
)
def test_a_demo_starts_from_the_seeds_file_word_for_word(ours: str, theirs: str) -> None:
    assert (CONFIG / ours).read_text() == (SEEDS / theirs).read_text()


def test_a_demo_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with start(tmp_path, "no-such-demo") as demo:
        printed, _ = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert "active-active" in printed


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "apps"))
    return importlib.import_module("demos.account")


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ([0, 1], [2, 3], "0 lost, 0 repeated, 0 out of order"),
        ([0, 1], [3], "1 lost, 0 repeated, 0 out of order"),
        ([0, 1], [1, 2, 3], "0 lost, 1 repeated, 0 out of order"),
        ([1, 0], [2, 3], "0 lost, 0 repeated, 1 out of order"),
        ([0, 1], [2, 3, 4], "0 lost, 0 repeated, 0 out of order, 1 that nobody wrote"),
    ],
)
def test_an_account_tells_what_is_wrong(
    account: Any, first: list[int], second: list[int], told: str
) -> None:
    def read(numbers: list[int]) -> Any:
        lines = [f"A.t-0@{place} message {number}" for place, number in enumerate(numbers)]
        return account.messages_in(
            "\n".join([*lines, f"{len(numbers)} messages read", "A.t-0@9 mes"])
        )

    told_of = account.Account(4, {"A": read(first), "B": read(second)})
    assert str(told_of) == f"4 written, {len(first)} read on A, {len(second)} read on B: {told}"
    assert told_of.is_right == (told == "0 lost, 0 repeated, 0 out of order")
