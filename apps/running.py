"""What every program here does alike: where its brokers are, how it ends, how it reads."""

import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, NoReturn

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from heliograph.client import MirrorError, translate_offsets

UNREACHABLE = 3


def add_brokers(parser: ArgumentParser, option: str, variable: str, default: str) -> None:
    """Add an option for bootstrap servers; the environment overrules its default."""
    parser.add_argument(
        option,
        default=servers(os.environ.get(variable, default)),
        type=servers,
        help=f"bootstrap servers, host:port,host:port (or ${variable}; {default})",
    )


def servers(written: str) -> str:
    """Return host:port,host:port, also of what is written as a listener: PLAINTEXT://host:port."""
    listed = written.replace("\\", "").split(",")
    return ",".join(server.strip().removeprefix("PLAINTEXT://") for server in listed)


def run(main: Callable[[], int]) -> NoReturn:
    """Exit with main's code: 0 after Ctrl-C or SIGTERM too, 3 if brokers do not answer."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:
        code = 0
    except MirrorError as exc:
        print(exc, file=sys.stderr)
        code = exc.exit_code
    except KafkaTimeoutError as exc:
        print(f"no broker answers: {exc}", file=sys.stderr)
        code = UNREACHABLE
    except KafkaError as exc:
        print(exc, file=sys.stderr)
        code = 1
    sys.exit(code)


def add_reading(parser: ArgumentParser, group: str) -> None:
    """Add the options of programs that read."""
    parser.add_argument("--group", default=group, help=f"consumer group ({group})")
    parser.add_argument("--count", type=int, help="end after so many messages")
    parser.add_argument("--idle", type=float, help="end after so many seconds without a message")


def open_consumer(bootstrap: str, group: str, idle: float | None) -> KafkaConsumer:
    """Return a consumer that commits when told to, and ends after `idle` seconds without a message."""
    ends = {} if idle is None else {"consumer_timeout_ms": int(idle * 1000)}
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **ends,
    )


def read(consumer: Any, count: int | None) -> int:
    """Print every message, and commit after each before the next is looked at."""
    seen = 0
    for message in consumer:
        print(f"{message.topic}-{message.partition}@{message.offset} {_text(message.value)}")
        sys.stdout.flush()
        consumer.commit()
        seen += 1
        if seen == count:
            break
    return seen


def go_on(consumer: KafkaConsumer, bootstrap: str, remote_cluster: str, topic: str) -> None:
    """Have a consumer read the copy of a topic from where its group was on the other cluster."""
    group = consumer.config["group_id"]
    translated = {
        TopicPartition(partition.topic, partition.index): place.offset
        for partition, place in translate_offsets(bootstrap, remote_cluster, group).items()
    }
    partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(partitions)
    for partition in partitions:
        # What it has read here since then counts too.
        there = consumer.committed(partition)
        offset = max(translated.get(partition, -1), -1 if there is None else there)
        if offset < 0:
            print(f"{topic}-{partition.partition}: nothing was committed, from the beginning")
            consumer.seek_to_beginning(partition)
        else:
            print(f"{topic}-{partition.partition}: from offset {offset}")
            consumer.seek(partition, offset)


def _text(value: bytes | None) -> str:
    return "(nothing)" if value is None else value.decode(errors="replace")
