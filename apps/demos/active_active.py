"""Seed 000: two data centres mirror each other; one is killed, and its consumer goes on in the other.

source  ProductA  ->  target  source.ProductA        DataCenter1Producer, DataCenter1Consumer1
target  ProductA  ->  source  target.ProductA        and the other way
source is killed: DataCenter2Consumer1 reads source.ProductA on target from the translated offset
"""

from demos.account import Account, Message
from demos.brokers import is_level, make_topic, topics_of
from demos.stage import Stage, first_and_last

WRITTEN, READ_AT_HOME, WRITTEN_BACK = 60, 35, 10
GROUP = "product-consumer"
ADDED = {
    "offset.storage.replication.factor": "1",  # one broker each
    "emit.checkpoints.interval.seconds": "1",  # a minute, unless told
    "refresh.groups.interval.seconds": "1",  # ten minutes, unless told
}


def play(stage: Stage) -> list[Account]:
    source, target = stage.start_cluster("source"), stage.start_cluster("target")
    with stage.step("make topic ProductA, one partition, on both"):
        for cluster in (source, target):
            make_topic(cluster.bootstrap, "ProductA", 1)
    here, there = source.bootstrap, target.bootstrap
    brokers = {"source.bootstrap.servers": here, "target.bootstrap.servers": there}
    stage.start_mirror(stage.write_properties("active-to-active-mm2.properties", brokers, ADDED))

    pace = ("--count", str(WRITTEN), "--interval", "0.05")
    producer = stage.start_program("datacenter1_producer.py", "--bootstrap-server", here, *pace)
    with stage.step("DataCenter1Consumer1 reads ProductA on source, a commit each") as notes:
        first = stage.run_program(
            "datacenter1_consumer.py", "--bootstrap-server", here, "--count", str(READ_AT_HOME)
        )
        notes.append(first_and_last(first))
    with stage.step("DataCenter1Producer writes the rest") as notes:
        stage.finish(producer)
        notes.append(f"{len(producer.messages())} messages in all")
    with stage.step("the other way: ProductA of target, read on source") as notes:
        back = _write_and_read_back(stage, here, there)
        notes.append(first_and_last(back))
    with stage.step("wait until target has all, and knows where the group is"):
        stage.wait(
            lambda: is_level(
                there, "source", "ProductA", GROUP, written=WRITTEN, committed=READ_AT_HOME
            ),
            "the copy and the checkpoint",
        )
    for name, bootstrap in (("source", here), ("target", there)):
        print(f"          topics on {name}: {', '.join(topics_of(bootstrap))}")
    with stage.step("kill -9 the broker of source"):
        for broker in source.pids:
            source.kill(broker)
    with stage.step("DataCenter2Consumer1 goes on in source.ProductA on target") as notes:
        second = stage.run_program(
            "datacenter2_consumer.py", "--bootstrap-server", there, "--idle", "5"
        )
        notes.append(first_and_last(second))
    return [
        Account(WRITTEN, {"source": first, "target": second}),
        Account(WRITTEN_BACK, {"source (from target)": back}),
    ]


def _write_and_read_back(stage: Stage, here: str, there: str) -> list[Message]:
    pace = ("--count", str(WRITTEN_BACK), "--interval", "0")
    stage.run_program("datacenter1_producer.py", "--bootstrap-server", there, *pace)
    return stage.run_program(
        "datacenter1_consumer.py",
        *("--bootstrap-server", here, "--topic", "target.ProductA"),
        *("--group", "back-consumer", "--count", str(WRITTEN_BACK)),
    )
