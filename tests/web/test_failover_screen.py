"""The screen of a fail-over in a real browser, over fail-overs that move nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from heliograph.failover.failover import Kind, Objection
from tests.browser import Viewer, open_browser
from tests.web.flows import flow_config
from tests.web.plans import Scene, serve

_SCREEN = "flows/A->B/failover"
_READY = "text=Type B to confirm"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(flow_config(tmp_path))


@pytest.fixture
def viewer(browser: Browser, scene: Scene) -> Iterator[Viewer]:
    with serve(scene) as server:
        viewer = Viewer(browser, server.url)
        yield viewer
        viewer.close()


def test_groups_are_chosen_by_ticks_and_what_is_about_others_does_not_count(
    viewer: Viewer, scene: Scene
) -> None:
    scene.objections = [Objection("billing is in use.", kind=Kind.TAKEN, groups=("billing",))]
    viewer.open(_SCREEN, _READY)
    page = viewer.page
    button = page.get_by_role("button", name="Fail over to B")
    page.get_by_label("Type B to confirm").fill("B")
    expect(page.get_by_text("billing is in use.")).to_be_visible()
    expect(button).to_be_disabled()

    page.get_by_label("Move billing").uncheck()
    expect(page.get_by_text("billing is in use.")).to_have_count(0)
    expect(page.get_by_text("in spite of")).to_have_count(0)
    expect(button).to_be_enabled()
    page.get_by_role("button", name="Choose none").click()
    expect(button).to_be_disabled()
    page.get_by_label("Move shipping").check()

    scene.objections = []
    button.click()
    page.wait_for_selector(".done")
    assert scene.planned[-1] == (frozenset({"shipping"}), False)
    assert not viewer.complaints


def test_the_focus_stays_and_a_poll_that_fails_does_not_end_the_watch(
    viewer: Viewer, scene: Scene
) -> None:
    scene.may_move.clear()
    viewer.open(_SCREEN, _READY)
    page = viewer.page
    page.get_by_label("Type B to confirm").fill("B")
    button = page.get_by_role("button", name="Fail over to B")
    button.click()
    expect(page.get_by_text("Moving groups: 0 of 2")).to_be_visible()
    expect(button).to_be_focused()

    def refuse(route: Route) -> None:
        route.abort()

    page.route("**/progress", refuse)
    expect(page.get_by_text("it is asked for again")).to_be_visible()
    page.unroute("**/progress", refuse)
    expect(page.get_by_text("Moving groups: 0 of 2")).to_be_visible()

    page.evaluate(
        "() => { window.touched = 0; new MutationObserver(() => window.touched++)"
        ".observe(document.querySelector('#main .steps li:last-child [role=status]'), {childList: true,"
        " characterData: true, subtree: true}); }"
    )
    page.wait_for_timeout(1_200)
    assert page.evaluate("window.touched") == 0

    scene.may_move.set()
    page.wait_for_selector(".done")
    left = page.get_by_role("button", name="Check what is left")
    expect(left).to_be_focused()
    left.click()
    expect(page.get_by_role("button", name="Check again")).to_be_focused()
    page.wait_for_selector(_READY)


def test_what_nobody_saw_is_not_overridden(viewer: Viewer, scene: Scene) -> None:
    behind = Objection("12 records are left behind.", kind=Kind.BEHIND)
    scene.objections = [behind]
    viewer.open(_SCREEN, _READY)
    page = viewer.page
    page.get_by_label("Type B to confirm").fill("B")
    page.get_by_text("in spite of").click()
    scene.objections = [behind, Objection("It is still written to.", kind=Kind.WRITTEN)]
    page.get_by_role("button", name="Fail over to B").click()
    expect(page.get_by_text("It was refused; nothing was changed.")).to_be_visible()
    expect(page.get_by_text("It is still written to.")).to_be_visible()
    assert not scene.carried_out


def test_looking_again_at_groups_leaves_the_focus_where_it_is(viewer: Viewer, scene: Scene) -> None:
    viewer.open("flows/A->B/groups", "summary")
    again = viewer.page.get_by_role("button", name="Look again")
    scene.may_plan.clear()
    viewer.page.wait_for_timeout(3_100)  # a plan is kept for 3 s
    again.click()
    expect(viewer.page.get_by_text("Looking at both clusters")).to_be_visible()
    expect(again).to_be_focused()
    scene.may_plan.set()
    expect(viewer.page.get_by_text("2 of 2 are ready")).to_be_visible()
    expect(again).to_be_focused()
