"""Reports of drills and verifies. Their pages are files from a disk: they may run nothing and load nothing."""

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from heliograph.connect.herder import RestError
from heliograph.observe.reports import NoSuchReport, ReportEntry, ReportTooLarge, Shelf

router = APIRouter(prefix="/api/reports", tags=["reports"])
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}
_SANDBOX = {
    "Content-Security-Policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    ),
    "Referrer-Policy": "no-referrer",
    **_NOSNIFF,
}
_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}}
}
_JSON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}


async def _shelf(request: Request) -> Shelf:
    return cast(Shelf, request.app.state.reports)


TheShelf = Annotated[Shelf, Depends(_shelf)]


@router.get("")
def list_reports(shelf: TheShelf) -> list[ReportEntry]:
    """Return the 200 newest reports, newest first."""
    return shelf.entries()


@router.get("/{name}", response_class=Response, responses=_JSON)
def get_report(shelf: TheShelf, name: str) -> Response:
    """Return a report."""
    try:
        return Response(shelf.read(name), media_type="application/json", headers=_NOSNIFF)
    except (NoSuchReport, ReportTooLarge) as exc:
        raise _refusal(exc) from exc


@router.get("/{name}/page", response_class=Response, responses=_PAGE)
def get_report_page(shelf: TheShelf, name: str) -> Response:
    """Return the page of a report: that of a verify has none."""
    try:
        return Response(shelf.read_page(name), media_type="text/html", headers=_SANDBOX)
    except (NoSuchReport, ReportTooLarge) as exc:
        raise _refusal(exc) from exc


def _refusal(error: NoSuchReport | ReportTooLarge) -> RestError:
    return RestError(404 if isinstance(error, NoSuchReport) else 413, str(error))
