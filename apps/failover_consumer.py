"""Reads a topic wherever it can be read: start several, they share it and move together.

SIGUSR1 sends it to the other cluster; of several, send it to each.
"""

import argparse
import logging
import signal
import sys
import time
from datetime import timedelta

from running import add_reading, run

from heliograph.client import FailoverConsumer, MirrorError, Move


def main() -> int:
    options = parse()
    told: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: told.append(number))
    with FailoverConsumer(
        options.topic,
        group_id=options.group,
        home=options.home,
        other=options.other,
        naming=options.naming,
        detect_after=timedelta(seconds=options.detect_after),
        return_home=options.return_home,
        auto_offset_reset=options.auto_offset_reset,
    ) as consumer:
        seen, last, moves = 0, time.monotonic(), 0
        while options.count is None or seen < options.count:
            if told:
                told.clear()
                go(consumer)
            records = consumer.poll(timedelta(seconds=0.5), max_records=1)
            for move in consumer.moves[moves:]:
                print(describe(move), flush=True)
            moves = len(consumer.moves)
            for record in records:
                place = f"{record.topic}-{record.partition}@{record.offset}"
                print(f"{consumer.cluster} {place} {record.value.decode(errors='replace')}")
                sys.stdout.flush()
                consumer.commit()
                seen, last = seen + 1, time.monotonic()
            if options.idle is not None and time.monotonic() - last > options.idle:
                break
        print(f"{seen} messages read")
    return 0


def go(consumer: FailoverConsumer) -> None:
    """Send a consumer to its other cluster; if that is no place to go, it stays."""
    try:
        consumer.move_to(consumer.other if consumer.cluster == consumer.home else consumer.home)
    except MirrorError as exc:
        print(exc, file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read a topic on whichever cluster is there.")
    parser.add_argument("--topic", action="append", help="its name at home; may be repeated")
    parser.add_argument("--home", type=site, default="cluster-a=localhost:9092")
    parser.add_argument("--other", type=site, default="cluster-b=localhost:9093")
    parser.add_argument("--naming", help="as replication.policy.class")
    parser.add_argument("--detect-after", type=float, default=10, help="seconds of silence (10)")
    parser.add_argument("--return-home", action="store_true", help="go home once it is back")
    parser.add_argument("--auto-offset-reset", choices=["earliest", "latest"])
    parser.add_argument("--verbose", action="store_true", help="log what is done and why")
    add_reading(parser, "hello-consumer")
    options = parser.parse_args()
    options.topic = options.topic or ["hello-kafka"]
    logging.basicConfig(level=logging.INFO if options.verbose else logging.CRITICAL)
    return options


def site(written: str) -> tuple[str, str]:
    """Return the alias and the bootstrap servers of alias=host:port,host:port."""
    alias, equals, servers = written.partition("=")
    if not (alias and equals and servers):
        raise argparse.ArgumentTypeError("write alias=host:port,host:port")
    return alias, servers


def describe(move: Move) -> str:
    places = ", ".join(f"{p}@{offset}" for p, offset in sorted(move.offsets.items()))
    return (
        f"moved from {move.source} to {move.target} ({move.why}) in {move.took.total_seconds():.1f} s, "
        f"at most {move.repeats} repeated: {places}"
    )


if __name__ == "__main__":
    run(main)
