"""apps/demo NAME: 0 if every message is accounted for, 1 if not or if something went wrong, 2 wrong use."""

import argparse
import inspect
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from demos import active_active, connect, dr_poc, migration
from demos.account import Account
from demos.stage import Stage

from heliograph.errors import MirrorError

INTERRUPTED = 130


class Demo(NamedTuple):
    """A story that is played on a stage, and what it came to."""

    story: str
    play: Callable[[Stage], list[Account]]


def main() -> int:
    demos = {
        "active-active": Demo(_story(active_active.__doc__), active_active.play),
        "dr-poc": Demo(_story(dr_poc.__doc__), dr_poc.play),
        "migration": Demo(_story(migration.__doc__), partial(migration.play, custom=False)),
        "connect": Demo(_story(connect.__doc__), connect.play),
    }
    parser = argparse.ArgumentParser(
        prog="apps/demo",
        description="Play a seed's demo on real clusters of its own, and account for every message.",
        epilog="Seed 002 is `./heliograph drill --scenario wipe`.",
    )
    parser.add_argument("name", choices=demos, help=", ".join(demos), metavar="NAME")
    parser.add_argument(
        "--custom", action="store_true", help="migration: topics keep their names (seed 003)"
    )
    options = parser.parse_args()
    demo = demos[options.name]
    if options.custom:
        if options.name != "migration":
            parser.error("--custom is for migration alone")
        demo = demo._replace(play=partial(migration.play, custom=True))
    return _play(demo)


def _play(demo: Demo) -> int:
    print(f"{demo.story}\n", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Stage() as stage:
            accounts = demo.play(stage)
    except MirrorError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    print()
    for account in accounts:
        print(f"{account}.")
    good = all(account.is_right for account in accounts)
    print("Every message was read once." if good else "NOT every message was read once.")
    return 0 if good else 1


def _story(told: str | None) -> str:
    return inspect.cleandoc(told or "")


if __name__ == "__main__":
    sys.exit(main())
