"""Brokers and whole clusters that go and come back under load."""

import os
import signal

from tests.faults.bench import Scene, in_turn, pause
from tests.faults.fault import on_both_sides

AWAY = float(os.environ.get("HELIOGRAPH_FAULTS_AWAY", "30"))
ASLEEP = 20


def kill_each(scene: Scene, side: str) -> None:
    cluster = scene.bench.cluster(side)

    def kill(broker: int) -> None:
        scene.say(f"kill -9 of broker {broker} of the {side}")
        cluster.cluster.kill(broker)
        scene.recover()  # with the brokers that are left
        scene.say(f"broker {broker} starts again")
        cluster.cluster.start_broker(broker)
        scene.recover()
        scene.bench.await_in_sync(side)

    in_turn(cluster, kill)


def restart_each(scene: Scene, side: str) -> None:
    cluster = scene.bench.cluster(side)

    def restart(broker: int) -> None:
        scene.say(f"broker {broker} of the {side} is stopped and started")
        cluster.cluster.stop_broker(broker)
        cluster.cluster.start_broker(broker)
        scene.bench.await_in_sync(side)
        scene.recover()

    in_turn(cluster, restart)


def take_away(scene: Scene, side: str) -> None:
    cluster = scene.bench.cluster(side)
    scene.say(f"kill -9 of all brokers of the {side}; they are away for {AWAY:.0f} s")
    in_turn(cluster, cluster.cluster.kill)
    pause(AWAY)
    cluster.cluster.start()
    scene.say(f"the {side} is back")
    scene.recover(120)
    scene.bench.await_in_sync(side)


def let_one_sleep(scene: Scene, side: str) -> None:
    cluster = scene.bench.cluster(side)
    scene.say(f"SIGSTOP of broker 1 of the {side} for {ASLEEP} s")
    cluster.cluster.kill(1, signal.SIGSTOP)
    pause(ASLEEP)
    cluster.cluster.kill(1, signal.SIGCONT)
    scene.say("SIGCONT")
    scene.recover()
    scene.bench.await_in_sync(side)


FAULTS = (
    *on_both_sides(
        "kill-brokers",
        "kill -9 of each broker of the {side} in turn",
        kill_each,
        common="target",
    ),
    *on_both_sides("rolling-restart", "rolling restart of the {side}", restart_each),
    *on_both_sides("away", f"kill -9 of the whole {{side}}, back after {AWAY:.0f} s", take_away),
    *on_both_sides(
        "sleep-broker", f"SIGSTOP of a broker of the {{side}} for {ASLEEP} s", let_one_sleep
    ),
)
