"""Requests that query a cluster: their parameters, a limit on them, and the answer if the cluster does not reply."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request

from heliograph.connect.herder import RestError
from heliograph.errors import (
    ClusterUnreachable,
    CorruptRecord,
    DeadlinePassed,
    KafkaFault,
    NotThere,
)
from heliograph.web import shapes

_AT_ONCE: Final = 16  # of the 40 threads for requests: those that ask no cluster never wait

FAULTS: dict[int | str, dict[str, Any]] = {
    502: shapes.error("what a cluster refused"),
    504: shapes.error("a cluster that does not answer"),
}
_TOPIC: Final = r"^[A-Za-z0-9._-]{1,249}$"
TopicInPath = Annotated[str, Path(pattern=_TOPIC)]
TopicInQuery = Annotated[str, Query(pattern=_TOPIC)]
Partition = Annotated[int, Query(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Query(ge=0, le=2**63 - 1)]
Limit = Annotated[int, Query(ge=1, le=500)]
Search = Annotated[str, Query(max_length=300)]


async def _one_of_few(request: Request) -> AsyncIterator[None]:
    state = request.app.state
    looking = getattr(state, "looking", 0)
    if looking >= _AT_ONCE:
        raise RestError(429, "too many are looking at clusters. Try again in some seconds.")
    state.looking = looking + 1
    try:
        yield
    finally:
        state.looking -= 1


LOOKS = [Depends(_one_of_few)]
"""For routes that ask a cluster."""


@contextmanager
def as_a_gateway() -> Iterator[None]:
    """Report what goes wrong with a cluster with the status that a gateway would use."""
    try:
        yield
    except NotThere as exc:
        raise RestError(404, str(exc)) from exc
    except (ClusterUnreachable, DeadlinePassed) as exc:
        raise RestError(504, str(exc)) from exc
    except (KafkaFault, CorruptRecord) as exc:
        raise RestError(502, str(exc)) from exc
