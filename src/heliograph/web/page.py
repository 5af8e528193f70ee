"""The page: one HTML file, its style and its modules, served as they are, compressed once.

Their addresses contain a digest of all of them, so that a browser keeps them until one changes.
The page loads nothing from elsewhere, and no script but these files may run, whatever a record, a topic or a
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

from heliograph.connect.herder import RestError

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
    "Vary": "Accept, Accept-Encoding",
}
_ANEW = "no-store"
_FOR_GOOD = "private, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page, plain and compressed."""

    media_type: str
    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class Files:
    """All files by their path below /page/DIGEST/, and the page itself, which uses these paths."""

    digest: str
    page: File
    by_path: dict[str, File]


@lru_cache(maxsize=1)
def page_files() -> Files:
    """Read the files, once."""
    plain = dict(_walk(files("heliograph.web") / "static", ""))
    digest = hashlib.sha256(b"".join(plain[path] for path in sorted(plain))).hexdigest()[:16]
    page = plain.pop("index.html").replace(b'"/page/', f'"/page/{digest}/'.encode())
    return Files(
        digest,
        _file("index.html", page),
        {path: _file(path, content) for path, content in plain.items()},
    )


def wants_page(request: Request) -> bool:
    """Return whether a browser asks, not a program: only a browser asks for HTML by name."""
    return "text/html" in request.headers.get("accept", "")


def serve_page(request: Request) -> Response:
    """Return the page itself."""
    return _serve(request, page_files().page, _ANEW)


@router.get("/page/{digest}/{path:path}")
def get_file(request: Request, digest: str, path: str) -> Response:
    """Return a file of the page; not to one of another version, which would be a mixture."""
    found = page_files().by_path.get(path)
    if found is None or digest != page_files().digest:
        raise RestError(404, "HTTP 404 Not Found")
    return _serve(request, found, _FOR_GOOD)


def _serve(request: Request, found: File, kept: str) -> Response:
    headers = {**_HEADERS, "Cache-Control": kept}
    body = found.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = found.packed, "gzip"
    return Response(body, media_type=found.media_type, headers=headers)


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = above + entry.name
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif _suffix(name) in _TYPES:
            yield name, entry.read_bytes()


def _file(path: str, plain: bytes) -> File:
    return File(_TYPES[_suffix(path)], plain, gzip.compress(plain, 9, mtime=0))


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
