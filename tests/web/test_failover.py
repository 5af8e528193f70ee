import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.errors import ClusterUnreachable, ConfigError, DeadlinePassed, KafkaFault
from heliograph.failover.failover import Kind, Objection, Refused, choose_groups
from heliograph.web import failover
from heliograph.web.failover import Failovers, Order, Seen, Stage, find_refusals
from lab.clusters import eventually
from tests.web.flows import flow_config
from tests.web.plans import Scene, make_plan, serve

_FLOW = "/api/failover/A->B"
_BEHIND = Objection("1784 records are left behind.", kind=Kind.BEHIND)
_NOTHING: dict[str, Any] = {"objections": [], "source_answers": True, "held": False}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(flow_config(tmp_path))


@pytest.fixture
def client(scene: Scene) -> Iterator[httpx.Client]:
    with serve(scene) as server, httpx.Client(base_url=server.url, timeout=30) as opened:
        yield opened


def begin(client: httpx.Client, **order: Any) -> httpx.Response:
    return client.post(_FLOW, json={"confirm": "B", "seen": _NOTHING, **order})


def ended(client: httpx.Client) -> dict[str, Any]:
    """Return the progress of a fail-over once it has come to an end."""

    def look() -> dict[str, Any]:
        now: dict[str, Any] = client.get(f"{_FLOW}/progress").json()
        return now if now["state"] in ("done", "refused", "failed") else {}

    return eventually(look, 10)


def seen_of(*objections: Objection, answers: bool = True, held: bool = False) -> Seen:
    return Seen.model_validate(
        {
            "objections": [{"kind": o.kind.value, "groups": list(o.groups)} for o in objections],
            "source_answers": answers,
            "held": held,
        }
    )


def test_a_plan_tells_what_speaks_against_it_by_kind_and_group(
    client: httpx.Client, scene: Scene
) -> None:
    scene.objections = [_BEHIND, Objection("it is used", kind=Kind.TAKEN, groups=("billing",))]
    plan = client.get(_FLOW).json()
    assert [(o["kind"], o["groups"]) for o in plan["objections"]] == [
        ("behind", []),
        ("taken", ["billing"]),
    ]
    assert (plan["confirm"], plan["done"]) == ("B", False)
    assert [group["group"] for group in plan["groups"]] == ["billing", "shipping"]


def test_a_plan_is_shared_and_kept_for_a_moment(client: httpx.Client, scene: Scene) -> None:
    scene.may_plan.clear()
    with ThreadPoolExecutor(30) as pool:
        told = [pool.submit(client.get, _FLOW) for _ in range(30)]
        eventually(lambda: scene.planned, 10)
        assert client.get("/connectors").status_code == 200
        scene.may_plan.set()
    assert {future.result().status_code for future in told} == {200}
    assert client.get(_FLOW).status_code == 200
    assert client.get(f"{_FLOW}?keep_flow=true").status_code == 200
    assert scene.planned == [(None, False), (None, True)]


def test_a_plan_takes_no_regular_expression(client: httpx.Client, scene: Scene) -> None:
    assert client.get(f"{_FLOW}?groups=(a%2B)%2B%24").status_code == 200
    assert scene.planned == [(None, False)]
    assert begin(client, groups="(a+)+$").status_code == 400
    assert begin(client, groups=[]).status_code == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ClusterUnreachable("B", "b:9092", "refused"), 504),
        (DeadlinePassed("ask B", 20), 504),
        (KafkaFault("describe", "TOPIC_AUTHORIZATION_FAILED", False), 502),
        (Refused("a fail-back was begun."), 409),
    ],
)
def test_why_there_is_no_plan_is_told(
    client: httpx.Client, scene: Scene, error: Exception, status: int
) -> None:
    scene.error = error
    answer = client.get(_FLOW)
    assert (answer.status_code, answer.json()["message"]) == (status, str(error))


def test_a_plan_is_not_waited_for_for_ever(
    client: httpx.Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "_LOOKING", timedelta(seconds=0.2))
    scene.may_plan.clear()
    assert client.get(_FLOW).status_code == 504


def test_a_fail_over_moves_groups_and_reports(client: httpx.Client, scene: Scene) -> None:
    scene.may_move.clear()
    answer = begin(client)
    assert answer.status_code == 202
    now = eventually(
        lambda: (found := client.get(f"{_FLOW}/progress").json())["state"] == "moving" and found, 10
    )
    assert now["total"] == 2
    assert begin(client).status_code == 409
    scene.may_move.set()
    now = ended(client)
    assert (now["state"], now["number"], now["total"]) == ("done", 2, 2)
    assert now["report"] == {
        "moved": {"billing": 1, "shipping": 1},
        "left": {},
        "held": True,
        "unfenced": {},
        "seconds": 0.5,
    }
    assert begin(client).status_code == 202


def test_groups_are_named_one_by_one(client: httpx.Client, scene: Scene) -> None:
    begin(client, groups=["billing", "a.*b"])
    ended(client)
    assert scene.planned == [(frozenset({"billing", "a.*b"}), False)]


def test_the_targets_name_must_be_typed(client: httpx.Client, scene: Scene) -> None:
    answer = begin(client, confirm="A")
    assert answer.status_code == 400
    assert "type B to confirm" in answer.json()["message"]
    assert client.post("/api/failover/X->Y", json={"confirm": "Y"}).status_code == 404
    assert client.get(f"{_FLOW}/progress").json()["state"] == "none"
    assert not scene.planned


def test_what_speaks_against_it_refuses_it(client: httpx.Client, scene: Scene) -> None:
    scene.objections = [_BEHIND]
    begin(client)
    now = ended(client)
    assert (now["state"], [o["kind"] for o in now["objections"]]) == ("refused", ["behind"])
    assert not scene.carried_out


def test_force_overrides_what_was_seen_whatever_its_numbers(
    client: httpx.Client, scene: Scene
) -> None:
    shown = {"objections": [{"kind": "behind", "sentence": "12 records"}]}
    scene.objections = [_BEHIND]
    begin(client, force=True, seen=_NOTHING | shown)
    assert ended(client)["state"] == "done"

    scene.objections = [
        _BEHIND,
        Objection("shipping reads", kind=Kind.IN_USE, groups=("shipping",)),
    ]
    begin(client, force=True, seen=_NOTHING | shown)
    now = ended(client)
    assert now["state"] == "refused"
    assert [o["sentence"] for o in now["objections"]] == ["shipping reads"]
    assert scene.carried_out == 1


def test_force_without_having_seen_anything_is_a_mistake(
    client: httpx.Client, scene: Scene
) -> None:
    assert begin(client, force=True, seen=None).status_code == 400
    assert not scene.planned


@pytest.mark.parametrize(
    ("seen", "now"),
    [
        (seen_of(answers=True), {"answers": False}),
        (seen_of(held=False), {"held": True}),
        (seen_of(held=True), {"held": False}),
    ],
)
def test_what_changed_since_the_plan_was_shown_refuses_it(
    scene: Scene, seen: Seen, now: dict[str, bool]
) -> None:
    plan = make_plan(scene.config, **now)  # type: ignore[arg-type]  # groups are not among them
    (refusal,) = find_refusals(plan, Order(confirm="B", force=True, seen=seen))
    assert not refusal.forcible
    assert "Check again" in refusal.sentence


def test_a_group_more_is_something_that_nobody_saw(scene: Scene) -> None:
    one = Objection("billing reads", kind=Kind.IN_USE, groups=("billing",))
    two = Objection("billing and more read", kind=Kind.IN_USE, groups=("billing", "shipping"))
    taken = Objection("billing is taken", kind=Kind.TAKEN, groups=("billing",))
    never = Objection("never", forcible=False)
    plan = make_plan(scene.config, two, taken, never)

    def refused(*seen: Objection, force: bool = True) -> list[Objection]:
        order = Order(confirm="B", force=force, seen=seen_of(*seen))
        return list(find_refusals(plan, order))

    assert refused(two, taken, never) == [never]
    assert refused(one, taken, never) == [two, never]
    assert refused(two, never) == [taken, never]
    assert refused(two, taken, never, force=False) == [two, taken, never]


@pytest.mark.parametrize("error", [ConfigError("nobody is called so."), ZeroDivisionError("a bug")])
def test_a_fail_over_that_fails_says_why_and_another_may_begin(
    client: httpx.Client, scene: Scene, error: Exception
) -> None:
    scene.error = error
    begin(client)
    now = ended(client)
    assert now["state"] == "failed"
    assert str(error) in now["error"]
    scene.error = None
    begin(client)
    assert ended(client)["state"] == "done"


def test_a_server_that_stops_ends_the_fail_over_first_and_begins_no_other(scene: Scene) -> None:
    scene.may_move.clear()
    with serve(scene) as server, httpx.Client(base_url=server.url) as client:
        begin(client)
        eventually(lambda: client.get(f"{_FLOW}/progress").json()["state"] == "moving", 10)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        eventually(lambda: "is stopping" in begin(client).text, 10)
        scene.may_move.set()
        stopping.join(30)
        assert not stopping.is_alive()
    assert scene.carried_out == 1


def test_a_fail_over_that_does_not_end_is_not_waited_for_for_ever(scene: Scene) -> None:
    scene.may_move.clear()
    failovers = Failovers(scene.plan, scene.carry_out)
    failovers.begin(scene.config, Order(confirm="B"))
    began = time.monotonic()
    failovers.close(timedelta(seconds=0.2))
    assert time.monotonic() - began < 60, "it would wait for ever"
    scene.may_move.set()
    failovers.close()
    assert failovers.progress("A->B").state is Stage.DONE


def test_a_fail_over_that_could_not_be_started_is_not_under_way(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    failovers = Failovers(scene.plan, scene.carry_out)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            failovers.begin(scene.config, Order(confirm="B"))
    assert failovers.progress("A->B").state is Stage.NONE
    failovers.begin(scene.config, Order(confirm="B"))
    failovers.close()
    assert failovers.progress("A->B").state is Stage.DONE


def test_names_of_groups_are_taken_as_they_are(scene: Scene) -> None:
    view = make_plan(scene.config).view
    stands: dict[str, Any] = {"a.b": [], "axb": []}
    assert list(choose_groups(stands, frozenset({"a.b"}), view)) == ["a.b"]
    assert list(choose_groups(stands, "a.b", view)) == ["a.b", "axb"]
    with pytest.raises(ConfigError, match="nobody: no group of A->B"):
        choose_groups(stands, frozenset({"a.b", "nobody"}), view)
