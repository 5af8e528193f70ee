"""Every error as Connect writes it: `{"error_code": ..., "message": ...}`, rendered here and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from heliograph.connect.herder import RestError
from heliograph.errors import ConfigError, MirrorError


def render(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the answer that reports an error."""
    return JSONResponse({"error_code": status, "message": message}, status, headers)


@contextmanager
def unknown_as(message: str) -> Iterator[None]:
    """Report an unknown connector in the words that Connect uses in this place."""
    try:
        yield
    except RestError as exc:
        raise RestError(404, message) if exc.status == HTTPStatus.NOT_FOUND else exc from exc


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(MirrorError, _on_mirror_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_bad_parameter)
    app.add_exception_handler(Exception, _on_bug)


async def _on_mirror_error(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RestError):
        return render(error.status, error.message)
    return render(400 if isinstance(error, ConfigError) else 500, str(error))


async def _on_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    headers = dict(error.headers) if error.headers else None
    return render(status, f"HTTP {status} {HTTPStatus(status).phrase}", headers)


async def _on_bad_parameter(_: Request, error: Exception) -> JSONResponse:
    return render(400, str(error))


async def _on_bug(_: Request, error: Exception) -> JSONResponse:
    """The last handler: an unexpected error is a 500 here, and a traceback in the server's log."""
    return render(500, f"{type(error).__name__}: {error}")
