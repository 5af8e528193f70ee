"""Writes docs/api.md: our own routes, with the role that each needs.

PYTHONPATH=src:. python tests/web/api_table.py > docs/api.md
"""

import sys
from collections.abc import Iterable
from typing import Any

from heliograph.web.access import needed_role
from heliograph.web.app import make_app
from tests.fakes import InMemoryHerder

_HEAD = """# Our own routes

The routes that the [page](page.md) and `heliograph top` read; programs can use them too. `heliograph run` and `heliograph worker` serve them with
[Connect's routes](rest.md), where their REST API listens; a worker answers for the flows that it copies itself.
`PYTHONPATH=src:. python tests/web/api_table.py` writes this page, and a test compares it with what that prints. Schemas are
in OpenAPI, at `/openapi.json`.

- Names in a path are percent-encoded: `/api/flows/A-%3EB`. Times are milliseconds since 1970, offsets and counts are numbers, and
  unknown values are null.
- An error is Connect's: `{"error_code": 404, "message": "one sentence"}`. 404 is a name that does not exist, 400 an invalid query,
  401 and 403 are as in [access.md](access.md), 429 and 503 are too many requests at once, 502 is a refusal of a cluster and 504 a cluster that does not
  answer within 5 s (a plan of a fail-over, offsets of a connector: 20 s). Routes that ask both ends of a flow answer with what one end says, and name the other in `troubles`.
- Lists have `offset`, `limit` (500 at most) and `total`; `search` is any part of a name, in small or capital letters.
- A role is needed where there is a [file of logins](access.md); without one, everybody may do everything.

"""
_TAIL = """
## Values

**A flow** in `/api/overview` and `/api/live` has `flow`, `source`, `target`, `connector` (the one to pause, resume and restart), `state`
(STARTING, RUNNING, PAUSED, FAILED, STOPPED), `health` (good, warning, bad, off) with the first `reason`, the sizes `topics`, `partitions`, `groups`,
what is wrong (`stopped`, `refused`, `waiting`, `groups_skipped`, `open_transaction_seconds`), `records` and `bytes` since the start, and over time `rate`, `byte_rate`
(per second, over 5 s), `lag` (records), `lag_seconds`, `rpo_seconds`, `rpo_worst_seconds` (of 24 hours), `p50_ms` and `p99_ms` (of a minute); then
`last_verify` and `last_drill`. A cluster is `bad` if a flow says that it does not answer.

**An open transaction** is one that was left open on the source: with `isolation.level=read_committed` nothing after its first record is copied. A
partition that waits for the end of one, for `open.transaction.seconds` or longer, has `open_transaction` in `/api/flows/{flow}/partitions` and
`/api/flows/{flow}/topics/{topic}`: `{"offset": 120, "seconds": 95.2, "producer_id": 4001, "transactional_id": "billing-1"}`, else null. `offset` is
where it begins, `seconds` how long this process has seen it, and `producer_id` and `transactional_id` are null where the source does not say them. A
flow names it in `waiting` and in `open_transactions`, and has the age of the oldest in `open_transaction_seconds`, 0 if there is none; a
topic in `/api/flows/{flow}/topics` counts its partitions that wait so in `open_transactions`. [What to do](alerts.md#heliographhangingtransaction).

**The stream** `/api/live` has `event: overview` each second and `event: log`, a line of `/api/events`, as it is logged. At most 50 listen at a
time. `/api/events` keeps the last 500 lines of INFO and above.

**A fail-over** is requested with `{"confirm": "B", "groups": null, "keep_flow": false, "force": false, "seen": null}`, where `confirm` is the
target's name and `groups` a list of names, or null for all. `seen` is what the plan said: `{"objections": [{"kind": "behind", "groups": []}],
"source_answers": true, "held": false}`; `force` needs it, and overrides only objections of a kind, and about groups, that were seen. 202: it has
begun, and `progress` goes from `planning` to `moving` to `done`, or to `refused` with its `objections`, or to `failed` with its `error`. When it
is `done`, `report` has `moved` (partitions by group), `left` (groups that were not moved whole, and why), `held`, `seconds` and `unfenced`: remote partitions that could not be fenced, and why. 409: one
is under way. 503: this process is stopping. A plan is kept for 3 s, and requests meanwhile get the same one.

**An objection** has a `sentence`, a `kind` (`no groups`, `silence`, `behind`, `written to`, `in use`, `unread`, `taken`, `blocked`, `away`, `other`), `groups` that it is about, none if
it is about the flow, and `forcible`. `away` says that partitions cannot be looked at, such as those without a leader: forced, groups continue there from what was saved last.

**A record** has `offset`, `timestamp_ms`, `key`, `value` and `headers`; bytes are `{"text", "encoding", "size", "cut"}`, text if they are UTF-8
without control characters, else hex, 4,096 bytes at most; 50 headers at most. `decoded` says in words what heartbeats, checkpoints, offset syncs
and run maps hold. Topics where Connect keeps configs are 403, since passwords are in them. Records are those that a `read_committed` consumer would see, 200 at most, from one of `offset`, `time_ms` and `last`.
"""


def page() -> str:
    return _HEAD + "\n".join(_table()) + "\n" + _TAIL


def _table() -> Iterable[str]:
    app = make_app(InMemoryHerder())
    app.state.live.end()
    yield "| route | query | role | answers |"
    yield "|---|---|---|---|"
    for path, methods in sorted(app.openapi()["paths"].items()):
        if path.startswith("/api/") or path == "/metrics":
            for method, told in methods.items():
                role = needed_role(method.upper(), path)
                says = told["description"].replace("\n", " ").removeprefix("Return ")
                yield f"| `{method.upper()} {path}` | {_query(told)} | {role} | {says} |"


def _query(told: dict[str, Any]) -> str:
    asked = [each for each in told.get("parameters", ()) if each["in"] == "query"]
    return ", ".join(f"`{each['name']}{_default(each)}`" for each in asked)


def _default(asked: dict[str, Any]) -> str:
    usual = asked["schema"].get("default")
    return f"={str(usual).lower()}" if usual not in (None, "") else ""


if __name__ == "__main__":
    sys.stdout.write(page())
