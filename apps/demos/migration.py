"""Seed 003: applications move from msksource to mskdest while a mirror runs: the consumer first, the producer later.

msksource  ExampleTopic  ->  mskdest  msksource.ExampleTopic     (--custom: ExampleTopic)
heliograph group-offset-sync keeps the group on mskdest where its checkpoints say
"""

import json
import time

from demos.account import Account
from demos.brokers import count_of, make_topic
from demos.stage import Program, Stage, first_and_last

GROUP, TOPIC, PARTITIONS = "mm2TestConsumer1", "ExampleTopic", 3
SOURCE, DEST = "msksource", "mskdest"
CUSTOM = "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy"
ENOUGH = 150
A_WHILE = 3.0
PROPERTIES = """\
clusters = msksource, mskdest
msksource.bootstrap.servers = {source}
mskdest.bootstrap.servers = {dest}
msksource->mskdest.enabled = true
msksource->mskdest.topics = ExampleTopic
msksource->mskdest.groups = mm2TestConsumer1
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 1
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
"""
CONSUMER = "BOOTSTRAP_SERVERS_CONFIG={bootstrap}\nGROUP_ID_CONFIG=mm2TestConsumer1\n"


def play(stage: Stage, *, custom: bool) -> list[Account]:
    """Play it with the default policy, or with that of Amazon's sample."""
    source = stage.start_cluster(SOURCE).bootstrap
    dest = stage.start_cluster(DEST).bootstrap
    make_topic(source, TOPIC, PARTITIONS)
    file = stage.folder / "mm2.properties"
    policy = f"replication.policy.class = {CUSTOM}\n" if custom else ""
    file.write_text(PROPERTIES.format(source=source, dest=dest) + policy)
    for name, bootstrap in (("", source), ("_sync_dest", dest)):
        (stage.folder / f"consumer.properties{name}").write_text(
            CONSUMER.format(bootstrap=bootstrap)
        )
    producer = _start_producer(stage, source, 0)
    consumer = _start_consumer(stage, "consumer.properties")
    stage.start_mirror(file)
    sync = ["group-offset-sync", "-cgi", GROUP, "-src", SOURCE]
    sync += ["-pfp", str(stage.folder / "consumer.properties_sync_dest")]
    sync += ["-rpc", CUSTOM] if custom else []

    with stage.step("heliograph group-offset-sync, and stop the consumer") as notes:
        syncing = stage.start_command(*sync, "-int", "1")
        stage.wait(lambda: len(consumer.messages()) >= ENOUGH, "the consumer to read")
        stage.stop(consumer)
        first = consumer.messages()
        notes.append(first_and_last(first))
    with stage.step("wait until heliograph plan says that the checkpoint is there"):
        stage.wait(lambda: _is_checkpointed(stage), "the last checkpoint")
        stage.stop(syncing)
        stage.finish(stage.start_command(*sync, "--once"))
    with stage.step("start the consumer against mskdest; the producer still writes to msksource"):
        consumer = _start_consumer(stage, "consumer.properties_sync_dest")
        stage.wait(lambda: len(consumer.messages()) >= ENOUGH, "the consumer to go on")
    with stage.step("stop the producer, and wait until the consumer has read all of it") as notes:
        stage.stop(producer)
        left = count_of(source, TOPIC)
        stage.wait(lambda: len(first) + len(consumer.messages()) >= left, "the last of the copy")
        notes.append(f"{left} messages in all")
    with stage.step("start the producer against mskdest"):
        if not custom:
            make_topic(dest, TOPIC, PARTITIONS)
        producer = _start_producer(stage, dest, left, "--count", str(ENOUGH))
        stage.finish(producer)
    with stage.step("the consumer reads the last of it, and stops") as notes:
        written = left + ENOUGH
        stage.wait(lambda: len(first) + len(consumer.messages()) >= written, "the rest")
        time.sleep(A_WHILE)  # were there anything more, it would come now
        stage.stop(consumer)
        second = consumer.messages()
        notes.append(first_and_last(second))
    return [Account(written, {SOURCE: first, DEST: second})]


def _start_producer(stage: Stage, bootstrap: str, first: int, *options: str) -> Program:
    """Start one that numbers its messages from `first` on."""
    where = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    numbers = ("--interval", "0.02", "--first", str(first))
    return stage.start_program("producer.py", *where, *numbers, *options)


def _start_consumer(stage: Stage, properties: str) -> Program:
    file = stage.folder / properties
    return stage.start_program("demos/example_consumer.py", "--properties", str(file))


def _is_checkpointed(stage: Stage) -> bool:
    """Whether the mirror has written down the group's last commit, by its plan of what is left to do."""
    file = str(stage.folder / "mm2.properties")
    asked = stage.start_command("plan", file, "--json", codes=(0, 1))
    flows = json.loads(stage.finish(asked))["flows"]
    groups = [its for flow in flows for its in flow["groups"] if its["group"] == GROUP]
    return any(its["partitions"] for its in groups) and not any(
        its["checkpoints"] + its["ahead"] for its in groups
    )
