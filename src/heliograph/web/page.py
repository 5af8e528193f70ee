"""The page: one HTML file, its style and its modules, served as they are, compressed once.

Nothing on it is from elsewhere, and no script but these files may run, whatever a record, a topic or a
header says: the policy forbids it, and the modules write text, never HTML.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from heliograph.control.connect import RestError

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Vary": "Accept, Accept-Encoding",
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page, plain and compressed."""

    media_type: str
    plain: bytes
    packed: bytes
    tag: str


@lru_cache(maxsize=1)
def page_files() -> dict[str, File]:
    """Return all files by their path below the folder."""
    return dict(_walk(files("heliograph.web") / "static", ""))


def wants_page(request: Request) -> bool:
    """Tell a browser from a program: only the former asks for HTML by name."""
    return "text/html" in request.headers.get("accept", "")


def serve(request: Request, path: str) -> Response:
    """Return a file of the page, or that the browser has it already."""
    found = page_files().get(path)
    if found is None:
        raise RestError(404, "HTTP 404 Not Found")
    headers = {**_HEADERS, "ETag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    body = found.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = found.packed, "gzip"
    return Response(body, media_type=found.media_type, headers=headers)


@router.get("/page/{path:path}")
def get_file(request: Request, path: str) -> Response:
    return serve(request, path)


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, File]]:
    for entry in folder.iterdir():
        name = above + entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif (suffix := name[name.rfind(".") :]) in _TYPES:
            plain = entry.read_bytes()
            tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
            yield name, File(_TYPES[suffix], plain, gzip.compress(plain, 9, mtime=0), tag)
