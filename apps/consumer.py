"""Reads hello-kafka on cluster A; with --failover_enabled its copy on B, from where the group was."""

import argparse

from running import add_brokers, add_reading, go_on, open_consumer, read, run


def main() -> int:
    parser = argparse.ArgumentParser(description="Read messages, and commit after each.")
    add_brokers(parser, "--bootstrap-a", "BOOTSTRAP_A", "localhost:9092")
    add_brokers(parser, "--bootstrap-b", "BOOTSTRAP_B", "localhost:9093")
    parser.add_argument("--topic", default="hello-kafka", help="its name on cluster A")
    parser.add_argument("--alias", default="cluster-a", help="what the mirror calls cluster A")
    parser.add_argument("--failover_enabled", action="store_true", help="read on cluster B")
    add_reading(parser, "hello-consumer")
    options = parser.parse_args()
    bootstrap = options.bootstrap_b if options.failover_enabled else options.bootstrap_a
    consumer = open_consumer(bootstrap, options.group, options.idle)
    try:
        if options.failover_enabled:
            go_on(consumer, bootstrap, options.alias, f"{options.alias}.{options.topic}")
        else:
            consumer.subscribe([options.topic])
        print(f"{read(consumer, options.count)} messages read")
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    run(main)
