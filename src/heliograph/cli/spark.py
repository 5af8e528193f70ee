"""`--spark key=value`, as all commands that start Spark take it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from heliograph.errors import ConfigError

SparkKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--spark",
        help="A key of Spark as key=value, before what the file says; may be repeated.",
        metavar="KEY=VALUE",
    ),
]


def parse_spark(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return what `--spark key=value` gave, by key."""
    given = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(
                f"--spark {pair}: write key=value with a key of Spark, such as spark.master=spark://host:7077."
            )
        given[key] = value
    return given
