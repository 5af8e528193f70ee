"""The REST API of a Connect worker, for any herder."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from heliograph.control.connect import Herder
from heliograph.control.reports import REPORTS
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
from heliograph.web.mirror import Flows

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

    Routes block, so they run on threads.
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


@_router.get("/", response_model=None, responses=shapes.answers(200, shapes.ROOT))
def get_root(request: Request, herder: TheHerder) -> dict[str, str] | Response:
    """Return who this is; to a browser, the page."""
    if page.wants_page(request):
        return page.serve_page(request)
    return {
        "version": shapes.version(),
        "commit": "unknown",
        "kafka_cluster_id": herder.cluster_id(),
    }


@_router.get(
    "/health",
    responses=shapes.answers(200, shapes.HEALTH)
    | shapes.answers(503, shapes.HEALTH)
    | shapes.answers(500, {"anyOf": [shapes.HEALTH, shapes.ERROR]}),
)
def get_health(herder: TheHerder) -> JSONResponse:
    status, message = herder.health()
    return JSONResponse({"status": status, "message": message}, _HEALTH[status])


class _JettysWays:
    """What Connect's server does before a route is looked for."""

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
        # The server leaves the body of the answer to a HEAD out by itself.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self.app({**scope, "path": path, "method": method}, receive, send)
