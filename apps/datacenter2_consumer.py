"""Reads source.ProductA in data centre 2, from where the group was in data centre 1."""

import argparse

from running import add_brokers, add_reading, go_on, open_consumer, read, run


def main() -> int:
    parser = argparse.ArgumentParser(description="Read the copy of ProductA.")
    add_brokers(parser, "--bootstrap-server", "BOOTSTRAP_SERVERS", "localhost:9095")
    parser.add_argument("--source", default="source", help="what the mirror calls data centre 1")
    parser.add_argument("--topic", default="ProductA", help="its name there (ProductA)")
    add_reading(parser, "product-consumer")
    options = parser.parse_args()
    bootstrap = options.bootstrap_server
    consumer = open_consumer(bootstrap, options.group, options.idle)
    try:
        go_on(consumer, bootstrap, options.source, f"{options.source}.{options.topic}")
        print(f"{read(consumer, options.count)} messages read")
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    run(main)
