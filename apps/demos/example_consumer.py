"""The consumer of seed 003: reads the topics that a pattern takes; commits synchronously, also before it ends."""

import argparse
import re
import signal
from contextlib import closing
from pathlib import Path

from kafka import KafkaConsumer
from running import run


def main() -> int:
    parser = argparse.ArgumentParser(description="Read topics by pattern, until SIGTERM.")
    parser.add_argument("--properties", type=Path, default=Path("consumer.properties"))
    parser.add_argument("--pattern", default=r"^(msksource\.)?ExampleTopic$")
    options = parser.parse_args()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    properties = read(options.properties)
    consumer = KafkaConsumer(
        bootstrap_servers=properties["BOOTSTRAP_SERVERS_CONFIG"],
        group_id=properties["GROUP_ID_CONFIG"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1000,
    )
    with closing(consumer):
        consumer.subscribe(pattern=options.pattern)
        while not told:
            polled = consumer.poll(timeout_ms=500)
            for messages in polled.values():
                for message in messages:
                    place = f"{message.topic}-{message.partition}@{message.offset}"
                    print(f"{place} {message.value.decode()}", flush=True)
            if polled:
                consumer.commit()
    return 0


def read(file: Path) -> dict[str, str]:
    """Return the keys and values of a properties file."""
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", file.read_text()))


if __name__ == "__main__":
    run(main)
