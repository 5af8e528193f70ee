"""Asks a worker all that was once asked of a real Connect, and compares the answers.

What is the same for a client may be written in other words: order of keys and lists, and sentences. All else must be
equal, or be one of DIFFERENCES, each of which stands in ADR 0007.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.golden.connect.exchange import SETTLED, Exchange, Names, ask
from tests.golden.connect.story import NOTHING, Step

ANSWERS = Path("tests/golden/connect/answers.json")
# Sentences: each program has its own, and Connect's change from version to version.
_WORDS = {"message", "errors", "trace", "documentation"}

SHAPE = "a body that is no JSON or has the wrong shape is the client's mistake: 400, not 500"
OFFSETS = "offsets that the connector refuses are the client's mistake: 400, not 500"
CLASS = "a missing or unknown class is the client's mistake: 400, not 500"
STRICT = "what could only fail later is refused at once"
UNUSED = "what heliograph does not use is not checked"
ISOLATION = "records of aborted transactions are not copied, so that exactly once needs no setting"
THREE = "the only plug-ins are the three connectors"
PAGE = "every error is JSON"
DIFFERENCES = {
    "no class": CLASS,
    "an empty object": CLASS,
    "an unknown plug-in": CLASS,
    "an object as a value": SHAPE,
    "a list as a value": SHAPE,
    "validation of malformed JSON": SHAPE,
    "creating with malformed JSON": SHAPE,
    "a config is replaced by malformed JSON": SHAPE,
    "a config is patched with malformed JSON": SHAPE,
    "malformed JSON as level": SHAPE,
    "validation of a list": SHAPE,
    "validation of nothing": SHAPE,
    "creating with an empty body": SHAPE,
    "creating with a list": SHAPE,
    "creating with null": SHAPE,
    "creating without a config": SHAPE,
    "creating with nothing": SHAPE,
    "creating with an unknown field": SHAPE,
    "creating in an unknown state": SHAPE,
    "creating with a number as state": SHAPE,
    "creating with a text as config": SHAPE,
    "a config is replaced by a list": SHAPE,
    "a config is replaced by nothing": SHAPE,
    "no body as level": SHAPE,
    "wrong types everywhere": UNUSED,
    "a broken pattern": STRICT,
    "an interval of nothing": STRICT,
    "a transform that is none": STRICT,
    "exactly once": ISOLATION,
    "exactly once, committed records only": ISOLATION,
    "all plug-ins": THREE,
    "a slash in a name in a path": PAGE,
    **{
        f"offsets are altered: {what}": SHAPE
        for what in ("malformed JSON", "no body", "no list", "an unknown field", "a text")
    },
    **{
        f"offsets are altered: {what}": OFFSETS
        for what in (
            "no partition",
            "a null partition",
            "a partition without topic",
            "a partition that is a text",
            "a negative partition",
            "a negative offset",
            "an offset that is a text",
            "an offset without its number",
        )
    },
    **{
        f"offsets of {name} are altered, {what}": OFFSETS
        for name in ("cpc", "hbc")
        for what in ("to 1", "of another's partition")
    },
}

Verdict = Literal["same", "own words", "differs"]


@dataclass(frozen=True, slots=True)
class Compared:
    """What Connect said, what we said, and where that is not the same."""

    theirs: Exchange
    ours: Exchange
    verdict: Verdict
    where: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        return DIFFERENCES.get(self.theirs.says)

    def __str__(self) -> str:
        asked = f"{self.theirs.says}: {self.theirs.method} {self.theirs.path}"
        return f"{asked}: {'; '.join(self.where)}\n  Connect: {_told(self.theirs)}\n  ours:    {_told(self.ours)}"


def recorded() -> list[Exchange]:
    return [Exchange(**answer) for answer in json.loads(ANSWERS.read_text())["answers"]]


def replay(url: str, source: str, target: str, patience: float = 60) -> Iterator[Compared]:
    """Tell the whole story to a worker, in order."""
    names = Names(source, target, url)
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=url, timeout=100, limits=limits) as client:
        for theirs in recorded():
            yield _repeat(client, names, theirs, patience)


def _repeat(client: httpx.Client, names: Names, theirs: Exchange, patience: float) -> Compared:
    sent: Any = NOTHING
    if theirs.sent is not None and theirs.sent.startswith("{"):
        sent = _parsed(theirs.sent)
    raw = theirs.sent if sent is NOTHING else None
    step = Step(theirs.says, theirs.method, theirs.path, sent, raw, theirs.sent_type)
    deadline = time.monotonic() + patience
    compared = compare(theirs, ask(client, names, step))
    while theirs.settles and patience and time.monotonic() < deadline:
        before = compared
        time.sleep(SETTLED if before.verdict != "differs" else 0.2)
        compared = compare(theirs, ask(client, names, step))
        if "differs" not in (before.verdict, compared.verdict):
            break
    return compared


def compare(theirs: Exchange, ours: Exchange) -> Compared:
    where: list[str] = []
    if theirs.status != ours.status:
        where.append(f"status {theirs.status} and {ours.status}")
    if theirs.location != ours.location:
        where.append(f"location {theirs.location} and {ours.location}")
    where += _differences(_shape(theirs.body), _shape(ours.body), "body")
    words = _texts(theirs.body) == _texts(ours.body)
    verdict: Verdict = "differs" if where else "same" if words else "own words"
    return Compared(theirs, ours, verdict, tuple(where))


def _differences(theirs: Any, ours: Any, at: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            if key not in theirs or key not in ours:
                yield f"{at}.{key} only with {'Connect' if key in theirs else 'us'}"
            else:
                yield from _differences(theirs[key], ours[key], f"{at}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and _is_as_many(theirs, ours, at):
        for index, (their, our) in enumerate(zip(theirs, ours, strict=False)):
            yield from _differences(their, our, f"{at}[{index}]")
    elif theirs != ours:
        yield f"{at}: {theirs!r} and {ours!r}"


def _is_as_many(theirs: list[Any], ours: list[Any], at: str) -> bool:
    """Whether lists have one length; we may have fewer tasks than Connect, one at least: see ADR 0007, tasks.max."""
    return len(theirs) == len(ours) or (at.endswith(".tasks") and 0 < len(ours) < len(theirs))


def _shape(value: Any, key: str = "") -> Any:
    """Return a body without its sentences, in an order of its own."""
    if key in _WORDS and value:
        return len(value) if isinstance(value, list) else "{words}"
    if key == "version":
        return re.sub(r"-heliograph.*", "", str(value))
    if key == "worker_id" and re.fullmatch(r".+:\d+", str(value)):
        return "{worker}"
    if isinstance(value, dict):
        return {name: _shape(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return _by_name(value) or sorted((_shape(item) for item in value), key=_sorted_text)
    return value


def _sorted_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Return keys of a plug-in by their names, without those that are ours alone."""
    found = {}
    for item in items:
        name = _key_name(item)
        if name is None:
            return None
        if name not in _OUR_KEYS:
            found[name] = _shape(item)
    return found


def _key_name(item: Any) -> str | None:
    match item:
        case {"value": {"name": str(name)}}:
            return name
        case {"name": str(name), "recommended_values": _} | {"name": str(name), "importance": _}:
            return name
        case _:
            return None


_OUR_KEYS = {
    "use.defaults.from",
    "chunk.max.bytes",
    "partition.fetch.max.bytes",
    "max.in.flight.requests",
    "on.loss",
    "merge.max.bytes",
    "open.transaction.seconds",
    "target.partitions",
}


def _texts(value: Any, key: str = "") -> Any:
    """Return the sentences of a body."""
    if key in _WORDS:
        return [value]
    if isinstance(value, dict):
        return [text for name in sorted(value) for text in _texts(value[name], name)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return NOTHING


def _told(exchange: Exchange) -> str:
    return f"{exchange.status} {json.dumps(exchange.body)[:600]}"
