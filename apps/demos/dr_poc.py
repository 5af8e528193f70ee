"""Seed 001: a producer writes to cluster A, its consumer is switched to cluster B while both run.

cluster-a  hello-kafka  ->  cluster-b  cluster-a.hello-kafka
producer.py, consumer.py, then consumer.py --failover_enabled
"""

from demos.account import Account
from demos.brokers import is_level, make_topic, topics_of
from demos.stage import Stage, first_and_last

WRITTEN, READ_AT_HOME = 80, 30
GROUP = "hello-consumer"
ADDED = {
    "replication.factor": "1",  # one broker each
    "offset.storage.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "emit.checkpoints.interval.seconds": "1",  # a minute, unless told
    "refresh.groups.interval.seconds": "1",  # ten minutes, unless told
}


def play(stage: Stage) -> list[Account]:
    a = stage.start_cluster("cluster-a").bootstrap
    b = stage.start_cluster("cluster-b").bootstrap
    with stage.step("make topic hello-kafka on cluster-a, one partition"):
        make_topic(a, "hello-kafka", 1)
    brokers = {"cluster-a.bootstrap.servers": a, "cluster-b.bootstrap.servers": b}
    stage.start_mirror(stage.write_properties("mm2.properties", brokers, ADDED))

    pace = ("--count", str(WRITTEN), "--interval", "0.25")
    producer = stage.start_program("producer.py", "--bootstrap-server", a, *pace)
    sides = ("--bootstrap-a", a, "--bootstrap-b", b)
    with stage.step("consumer.py, while producer.py writes") as notes:
        first = stage.run_program("consumer.py", *sides, "--count", str(READ_AT_HOME))
        notes.append(first_and_last(first))
    with stage.step("wait until cluster-b knows where the group is") as notes:
        stage.wait(
            lambda: is_level(
                *(b, "cluster-a", "hello-kafka", GROUP),
                written=READ_AT_HOME,
                committed=READ_AT_HOME,
            ),
            "the checkpoint",
        )
        notes.append(f"producer.py is at {len(producer.messages())} messages")
    with stage.step("consumer.py --failover_enabled") as notes:
        rest = ("--count", str(WRITTEN - READ_AT_HOME))
        second = stage.run_program("consumer.py", *sides, "--failover_enabled", *rest)
        notes.append(first_and_last(second))
    with stage.step("consumer.py --failover_enabled, once more") as notes:
        stage.finish(producer)
        more = stage.run_program("consumer.py", *sides, "--failover_enabled", "--idle", "3")
        notes.append(first_and_last(more))
    for name, bootstrap in (("cluster-a", a), ("cluster-b", b)):
        print(f"          topics on {name}: {', '.join(topics_of(bootstrap))}")
    return [Account(WRITTEN, {"cluster-a": first, "cluster-b": [*second, *more]})]
