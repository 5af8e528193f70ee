"""Reads ProductA in data centre 1, and commits synchronously after each message."""

import argparse

from running import add_brokers, add_reading, open_consumer, read, run


def main() -> int:
    parser = argparse.ArgumentParser(description="Read ProductA where it is written.")
    add_brokers(parser, "--bootstrap-server", "BOOTSTRAP_SERVERS", "localhost:9093")
    parser.add_argument("--topic", default="ProductA", help="topic to read (ProductA)")
    add_reading(parser, "product-consumer")
    options = parser.parse_args()
    consumer = open_consumer(options.bootstrap_server, options.group, options.idle)
    try:
        consumer.subscribe([options.topic])
        print(f"{read(consumer, options.count)} messages read")
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    run(main)
