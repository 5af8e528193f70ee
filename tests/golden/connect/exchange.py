"""One request and its answer, free of what differs from run to run."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from tests.golden.connect.story import NOTHING, Step

SETTLED = 1.5
_BUSY = "rebalance"
_UNSTABLE = {
    "trace": "{trace}",
    "last_modified": "{time}",
    "documentation": "{text}",
    "commit": "{commit}",
    "kafka_cluster_id": "{id}",
}


@dataclass(frozen=True, slots=True)
class Names:
    """What the words in braces stand for in one run."""

    source: str
    target: str
    url: str

    def fill(self, text: str) -> str:
        return text.replace("{source}", self.source).replace("{target}", self.target)

    def blank(self, text: str) -> str:
        for word, value in (
            ("source", self.source),
            ("target", self.target),
            ("url", self.url),
            ("worker", self.url.split("//")[1]),
        ):
            text = text.replace(value, f"{{{word}}}")
        return re.sub(r"\b([\w.$]+)@[0-9a-f]{5,8}\b", r"\1@{hash}", text)


@dataclass(frozen=True, slots=True)
class Exchange:
    """`sent` is the body as text; `settles` says that it was repeated until the answer came."""

    says: str
    method: str
    path: str
    sent: str | None
    sent_type: str
    settles: bool
    status: int
    content_type: str | None
    location: str | None
    body: Any

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ask(client: httpx.Client, names: Names, step: Step) -> Exchange:
    """Ask once; while the workers rebalance, ask again, as every client of Connect must."""
    deadline = time.monotonic() + 60
    sent = step.raw if step.sent is NOTHING else json.dumps(step.sent)
    while True:
        answer = client.request(
            step.method,
            step.path,
            content=None if sent is None else names.fill(sent),
            headers={} if sent is None else {"content-type": step.content_type},
        )
        if answer.status_code != 409 or _BUSY not in answer.text or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return Exchange(
        step.says,
        step.method,
        step.path,
        sent,
        step.content_type,
        step.until is not None,
        answer.status_code,
        answer.headers.get("content-type"),
        _blank_optional(names, answer.headers.get("location")),
        _body(names, step, answer),
    )


def ask_until(
    client: httpx.Client, names: Names, step: Step, fits: Callable[[Any], bool], within: float = 60
) -> Exchange:
    """Ask until the answer's body fits, and still does so a moment later: a status can be an old one."""
    deadline = time.monotonic() + within
    while True:
        found = ask(client, names, step)
        if fits(found.body):
            time.sleep(SETTLED)
            found = ask(client, names, step)
        if fits(found.body):
            return found
        assert time.monotonic() < deadline, f"{step.says}: {found}"
        time.sleep(0.2)


def _blank_optional(names: Names, text: str | None) -> str | None:
    return None if text is None else names.blank(text)


def _body(names: Names, step: Step, answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    try:
        body = _steady(json.loads(names.blank(answer.text)))
    except ValueError:
        return "{page}"
    return _brief(step, body)


def _brief(step: Step, body: Any) -> Any:
    """Leave out what was recorded before, or is another in each program."""
    if step.path == "/admin/loggers":
        return {"root": body["root"]}
    if "MirrorHeartbeat/" in step.path and isinstance(body, list):
        return body[:2]
    if "configs" in body:
        return body | {"configs": list(_told(step, body["configs"]))}
    return body


def _told(step: Step, configs: list[Any]) -> Iterator[Any]:
    """Yield one validation in full, the values of the other good ones, and of bad ones what was sent."""
    good = step.says.startswith("a good config")
    sent = step.sent if isinstance(step.sent, dict) else {}
    for config in configs:
        value = config["value"]
        if good and "Heartbeat" in step.path:
            yield config
        elif good or value["errors"] or value["name"] in sent:
            yield value | {"recommended_values": []}


def _steady(value: Any) -> Any:
    if isinstance(value, list):
        return [_steady(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _UNSTABLE[key] if key in _UNSTABLE and item is not None else _steady(item)
        for key, item in value.items()
    }
