"""The REST API of a Connect worker, for any herder."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, cast

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from heliograph.connect.herder import Herder, Offset
from heliograph.observe.looking import PATIENCE
from heliograph.observe.reports import REPORTS
from heliograph.web import (
    clusters,
    connectors,
    failover,
    loggers,
    messages,
    metrics,
    mirror,
    overview,
    page,
    plugins,
    reports,
    runs,
    shapes,
    topics,
)
from heliograph.web.asked import TheHerder
from heliograph.web.errors import add_error_handlers, render
from heliograph.web.events import Events
from heliograph.web.inquiries import FOR_GOOD, Inquiries
from heliograph.web.looking import FAULTS, as_a_gateway
from heliograph.web.mirror import Flows

_PROBES = 2  # at a time, on threads that no other route uses
_HEALTH = {"healthy": 200, "starting": 503, "unhealthy": 500}
_router = APIRouter(tags=["worker"])
_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": shapes.error("what the client can put right"),
    500: shapes.error("what this worker could not do"),
}

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def make_app(herder: Herder, *, read_only: bool = False, shelf: Path = REPORTS) -> FastAPI:
    """Return the API and the page; `shelf` is the folder of reports. OpenAPI is at /openapi.json.

    Routes block, so they run on at most 40 threads; routes that ask a cluster leave some of them free.
    """
    app = FastAPI(
        title="heliograph",
        version=shapes.version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=_ERRORS,
    )
    app.state.herder = herder
    app.state.events = Events()
    logging.getLogger("heliograph").addHandler(app.state.events)
    app.state.read_only = read_only
    app.state.cluster_ids = Inquiries[str]()
    app.state.offsets = Inquiries[list[Offset]]()
    app.state.probes = CapacityLimiter(_PROBES)
    app.state.levels_changed = {}
    for room in (
        _router,
        connectors.router,
        runs.router,
        plugins.router,
        loggers.router,
        mirror.router,
        clusters.router,
        messages.router,
        topics.router,
        reports.router,
        page.router,
    ):
        app.include_router(room)
    desk = metrics.mount(app, shelf)
    overview.mount(app, cast(Flows, herder), desk)
    failover.mount(app)
    add_error_handlers(app)
    app.add_middleware(_JettysWays)
    return app


@_router.get("/", response_model=None, responses=FAULTS | shapes.answers(200, shapes.ROOT))
async def get_root(request: Request, herder: TheHerder) -> dict[str, str] | Response:
    """Return who this is; to a browser, the page."""
    if page.wants_page(request):
        return page.serve_page(request)

    def find() -> str:
        with as_a_gateway():
            return herder.cluster_id()

    ids = cast("Inquiries[str]", request.app.state.cluster_ids)
    cluster_id = await ids.ask("cluster id", find, PATIENCE, most=1, keep=lambda _: FOR_GOOD)
    return {
        "version": shapes.version(),
        "commit": "unknown",
        "kafka_cluster_id": cluster_id,
    }


@_router.get(
    "/health",
    responses=shapes.answers(200, shapes.HEALTH)
    | shapes.answers(503, shapes.HEALTH)
    | shapes.answers(500, {"anyOf": [shapes.HEALTH, shapes.ERROR]}),
)
async def get_health(request: Request, herder: TheHerder) -> JSONResponse:
    limiter = request.app.state.probes
    status, message = await to_thread.run_sync(herder.health, limiter=limiter)
    return JSONResponse({"status": status, "message": message}, _HEALTH[status])


class _JettysWays:
    """What Connect's server does before routing."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if b"%2f" in scope.get("raw_path", b"").lower():
            await render(400, "Ambiguous URI path separator")(scope, receive, send)
            return
        path = scope["path"].rstrip("/") or "/"
        # The server itself omits the body of the answer to a HEAD.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self.app({**scope, "path": path, "method": method}, receive, send)
