"""Writes numbered messages to hello-kafka on cluster A, until Ctrl-C or --count."""

import argparse
import itertools
import time

from kafka import KafkaProducer
from running import add_brokers, run


def main(default_servers: str = "localhost:9092", topic: str = "hello-kafka") -> int:
    parser = argparse.ArgumentParser(description="Write numbered messages.")
    add_brokers(parser, "--bootstrap-server", "BOOTSTRAP_SERVERS", default_servers)
    parser.add_argument("--topic", default=topic, help=f"topic to write to ({topic})")
    parser.add_argument("--count", type=int, help="end after so many messages")
    parser.add_argument("--first", type=int, default=0, help="number of the first message (0)")
    parser.add_argument("--interval", type=float, default=1, help="seconds between messages (1)")
    options = parser.parse_args()
    numbers = itertools.islice(itertools.count(options.first), options.count)
    producer = KafkaProducer(bootstrap_servers=options.bootstrap_server)
    try:
        for number in numbers:
            written = producer.send(options.topic, f"message {number}".encode()).get(30)
            print(
                f"{written.topic}-{written.partition}@{written.offset} message {number}", flush=True
            )
            time.sleep(options.interval)
    finally:
        producer.close()
    return 0


if __name__ == "__main__":
    run(main)
