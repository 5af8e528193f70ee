"""Brokers and whole clusters that go and come back under load."""

import os
import signal

import pytest

from tests.faults.bench import Bench, in_turn, pause

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

SIDES = ("source", "target")
AWAY = float(os.environ.get("HELIOGRAPH_FAULTS_AWAY", "30"))


@pytest.mark.parametrize("side", SIDES)
def test_each_broker_in_turn_is_killed_and_started_again(bench: Bench, side: str) -> None:
    cluster = bench.cluster(side)
    with bench.under_load(f"kill -9 of each broker of the {side} in turn") as scene:

        def kill(broker: int) -> None:
            cluster.cluster.kill(broker)
            scene.recover()  # with the brokers that are left
            cluster.cluster.start_broker(broker)
            scene.recover()
            bench.await_in_sync(side)

        in_turn(cluster, kill)


@pytest.mark.parametrize("side", SIDES)
def test_a_rolling_restart(bench: Bench, side: str) -> None:
    cluster = bench.cluster(side)
    with bench.under_load(f"rolling restart of the {side}") as scene:

        def restart(broker: int) -> None:
            cluster.cluster.stop_broker(broker)
            cluster.cluster.start_broker(broker)
            bench.await_in_sync(side)
            scene.recover()

        in_turn(cluster, restart)


@pytest.mark.parametrize("side", SIDES)
def test_a_whole_cluster_is_away(bench: Bench, side: str) -> None:
    cluster = bench.cluster(side)
    with bench.under_load(f"kill -9 of the whole {side}, back after {AWAY:.0f} s") as scene:
        in_turn(cluster, cluster.cluster.kill)
        pause(AWAY)
        cluster.cluster.start()
        scene.recover(120)
        bench.await_in_sync(side)


@pytest.mark.parametrize("side", SIDES)
def test_a_broker_sleeps(bench: Bench, side: str) -> None:
    cluster = bench.cluster(side)
    with bench.under_load(f"SIGSTOP of a broker of the {side} for 20 s") as scene:
        cluster.cluster.kill(1, signal.SIGSTOP)
        pause(20)
        cluster.cluster.kill(1, signal.SIGCONT)
        scene.recover()
        bench.await_in_sync(side)
