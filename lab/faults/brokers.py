"""Brokers, whole clusters and the mirror's own topics that disappear and come back under load."""

import os
import signal

from lab.clusters import eventually
from lab.faults.bench import STARTING, Scene, in_turn, pause
from lab.faults.fault import Fault, on_both_sides

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


def delete_own_topics(scene: Scene) -> None:
    """They are recreated with all that they must hold: after the next kill of the driver, a new driver reads it."""
    bench = scene.bench
    saved = [f"mm2-offsets.{bench.alias}.internal", f"mm2-runs.{bench.alias}.internal"]
    own = {
        bench.target: [*saved, f"{bench.alias}.checkpoints.internal", "heartbeats"],
        bench.source: ["mm2-offset-syncs.B.internal"],
    }
    scene.say(f"{', '.join(name for names in own.values() for name in names)} are deleted")
    for cluster, names in own.items():
        for deleted in cluster.admin.delete_topics(names).values():
            deleted.result(timeout=30)
    for cluster, names in own.items():
        eventually(lambda: set(names) <= cluster.topics(), 90, bench.mirror.tail)  # noqa: B023 - called at once
    scene.recover()
    for name in saved:
        assert bench.mirror.lines(f"{name} is gone and is made again"), bench.mirror.tail()
    pause(6)  # until the known state is saved
    scene.say("all of them are there again; kill -9 of the driver")
    os.kill(scene.process("driver"), signal.SIGKILL)
    scene.recover_restarting(STARTING)


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
    Fault(
        "delete-own-topics",
        "an administrator deletes all topics of the mirror's own; then kill -9 of the driver",
        delete_own_topics,
        systems=("heliograph",),
    ),
)
