"""Writes the rows of CSV files to a topic, of each file as it appears in a folder and as it grows.

Options or the environment of the seed's container: BOOTSTRAP_SERVERS, TOPIC_NAME, INPUT_LOGS_DIR, ACKS,
RETRIES, BATCH_SIZE, LINGER_MS. One for NginxServerLogs on cluster A, one for TomcatServerLogs on B.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError
from running import add_brokers, run

HEADER = (
    "number,ip,date,time,zone,cik,accession,extention,code,size,idx,norefer,noagent,find,crawler,"
    "browser"
)
PARTITIONS = {"NginxServerLogs": 15, "TomcatServerLogs": 10}
_PROGRESS = 1.0


def main() -> int:
    options = parse()
    if not options.folder.is_dir():
        print(
            f"{options.folder}: there is no such folder. Make it, or name another.", file=sys.stderr
        )
        return 2
    make_topic(options.bootstrap_server, options.topic, options.partitions)
    producer = KafkaProducer(
        bootstrap_servers=options.bootstrap_server,
        acks=options.acks,
        retries=options.retries,
        batch_size=options.batch_size,
        linger_ms=options.linger_ms,
    )
    sent = Sent()
    try:
        read_to: dict[Path, int] = {}
        while True:
            for key, row in new_rows(options.folder, read_to):
                sent.follow(producer.send(options.topic, row, key))
                sent.tell(options.topic, _PROGRESS)
            producer.flush()
            if options.once:
                break
            time.sleep(options.interval)
    finally:
        producer.close()
        sent.tell(options.topic, 0)
    return 1 if sent.refused else 0


class Sent:
    """Counts rows, and those that the cluster did not take."""

    def __init__(self) -> None:
        self.rows = 0
        self.refused = 0
        self._told_at = time.monotonic()

    def follow(self, future: Any) -> None:
        self.rows += 1
        future.add_errback(self._refuse)

    def tell(self, topic: str, every: float) -> None:
        """Print a line of progress, if the last one is that old."""
        if time.monotonic() - self._told_at >= every:
            self._told_at = time.monotonic()
            refused = f", {self.refused} refused" if self.refused else ""
            print(f"{topic} {self.rows} rows{refused}", flush=True)

    def _refuse(self, error: Exception) -> None:
        if not self.refused:
            print(f"a row was refused: {error}", file=sys.stderr)
        self.refused += 1


def new_rows(folder: Path, read_to: dict[Path, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and line of what was added since `read_to`, whole lines without headers."""
    for file in sorted(folder.glob("*.csv")):
        with file.open("rb") as lines:
            lines.seek(read_to.get(file, 0))
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # still being written
                read_to[file] = read_to.get(file, 0) + len(line)
                row = line.rstrip(b"\r\n")
                if row and b",cik," not in row:
                    yield row.partition(b",")[0], row


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, partitions, -1)])
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()


def parse() -> argparse.Namespace:
    environ = os.environ
    parser = argparse.ArgumentParser(description="Write the rows of CSV files to a topic.")
    add_brokers(parser, "--bootstrap-server", "BOOTSTRAP_SERVERS", "localhost:9092")
    parser.add_argument("--topic", default=environ.get("TOPIC_NAME", "NginxServerLogs"))
    parser.add_argument("--partitions", type=int, help="of a topic that is made: 15, Tomcat's 10")
    folder = environ.get("INPUT_LOGS_DIR", "input_logs").replace("\\", "")
    parser.add_argument("--folder", type=Path, default=Path(folder))
    parser.add_argument("--acks", default=environ.get("ACKS", "all"), choices=["0", "1", "all"])
    parser.add_argument("--retries", type=int, default=environ.get("RETRIES", "10"))
    parser.add_argument("--batch-size", type=int, default=environ.get("BATCH_SIZE", "16384"))
    parser.add_argument("--linger-ms", type=int, default=environ.get("LINGER_MS", "1"))
    parser.add_argument("--interval", type=float, default=1, help="seconds between looks (1)")
    parser.add_argument("--once", action="store_true", help="end when all that is there is sent")
    options = parser.parse_args()
    options.acks = options.acks if options.acks == "all" else int(options.acks)
    options.partitions = options.partitions or PARTITIONS.get(options.topic, 15)
    return options


if __name__ == "__main__":
    run(main)
