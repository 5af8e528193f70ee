"""Who may send which requests to the REST API, decided before routing.

Reading needs the role view, and operate where records themselves are read. /api/failover needs failover,
everything else that changes something needs operate.
/health is open to all, for probes. A browser on a page of another site is refused, whatever the login. So is a browser
that reached this machine's own listener under a foreign host name.
"""

import base64
import binascii
import hashlib
import logging
import re
import secrets
import threading
import time
import unicodedata
from asyncio import Semaphore
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware

from heliograph.config.access import Entry, Password, Role, Token, hash_password, read_entries
from heliograph.config.fields import split_list
from heliograph.config.listeners import Listener
from heliograph.config.settings_rest import RestSettings
from heliograph.errors import ConfigError
from heliograph.web.errors import render

log = logging.getLogger(__name__)

_READS = ("GET", "HEAD", "OPTIONS")
_CHECKS_AT_ONCE = 2  # one costs 16 MB and some 60 ms of a core
_CHECKS_WAITING = 64
_LOOKS_AT_ONCE = 4  # reads of the file, on threads that no route uses
_TELL_EVERY = timedelta(seconds=10)
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_JETTYS_METHODS = ("GET", "POST", "HEAD")  # what Connect allows if nothing is configured
_ENTRY = "heliograph.entry"
_RECORDS = re.compile("/api/clusters/[^/]*/messages")
_CHALLENGES = 'Basic realm="heliograph", charset="UTF-8"', 'Bearer realm="heliograph"'

Given = TypeVar("Given")
Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


class Login(NamedTuple):
    """A name and a password."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.name})"


def needed_role(method: str, path: str) -> Role:
    """Return the least role that a request needs."""
    if method in _READS:
        return Role.OPERATE if _RECORDS.fullmatch(path) else Role.VIEW
    return Role.FAILOVER if f"{path}/".startswith("/api/failover/") else Role.OPERATE


def who_asks(scope: Scope) -> Entry | None:
    """Return the user that the gate let through; None if nobody has to log in."""
    return scope.get(_ENTRY)


def parse_authorization(header: str) -> Login | str | None:
    """Return a login, a bearer token, or None for what is neither."""
    scheme, _, rest = header.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return rest.strip() or None
        case "basic":
            try:
                name, colon, password = base64.b64decode(rest.strip()).decode().partition(":")
            except (binascii.Error, ValueError):
                return None
            return Login(name, password) if colon else None
        case _:
            return None


def is_foreign(origin: str, host: str) -> bool:
    """Return whether a page of another site asks; a TLS proxy in front may change scheme, not host."""
    try:
        return not host or _bare(urlsplit(origin).netloc) != _bare(host)
    except ValueError:
        return True


def has_control_characters(path: str) -> bool:
    """Return whether a path holds what no name does, and what a route could read differently than the gate."""
    return any(unicodedata.category(char) == "Cc" for char in path)


def host_in(netloc: str) -> str:
    """Return the host of a Host header, without its port; empty for what is none."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def own_hosts(listener: Listener) -> frozenset[str] | None:
    """Return the host names under which a local listener answers; None if others can reach it anyway."""
    if not listener.is_local:
        return None
    return _LOCAL | {listener.host.lower(), host_in(urlsplit(listener.url).netloc)}


def _bare(netloc: str) -> str:
    return netloc.lower().removesuffix(":80").removesuffix(":443")


class Access:
    """The entries of a file, read again whenever it changes; an unusable file lets nobody in."""

    def __init__(self, path: Path) -> None:
        """Read the file; ConfigError says what is wrong with it."""
        self._path = path
        self._lock = threading.Lock()
        self._seen: object = None
        self._entries: tuple[Entry, ...] = ()
        self._fault: ConfigError | None = None
        self._proven: dict[bytes, Entry] = {}
        self._key = secrets.token_bytes(32)
        self._nobody = hash_password(secrets.token_urlsafe(16))
        if not self.entries():
            raise ConfigError(f"{path}: nobody stands in it. Do heliograph access add.")

    def entries(self) -> tuple[Entry, ...]:
        """Return the current entries."""
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._read_again()
                self._seen = seen
            if self._fault is not None:
                raise self._fault
            return self._entries

    def recall(self, given: Login | str) -> Entry | None:
        """Return who that is if it is a token, or a login that was correct before: both are quick."""
        entries = self.entries()
        if isinstance(given, Login):
            with self._lock:
                return self._proven.get(self._digest(given))
        tokens = [entry for entry in entries if isinstance(entry.proof, Token)]
        fitting = [entry for entry in tokens if entry.proof.fits(given)]
        return fitting[0] if fitting else None

    def check(self, given: Login) -> Entry | None:
        """Return who that is, slowly; an unknown name takes as long as a wrong password."""
        entries = self.entries()
        named = [e for e in entries if e.name == given.name and isinstance(e.proof, Password)]
        proof = named[0].proof if named else self._nobody
        if not proof.fits(given.password) or not named:
            return None
        with self._lock:
            if self._entries is entries:
                self._proven[self._digest(given)] = named[0]
        return named[0]

    def _digest(self, given: Login) -> bytes:
        text = f"{given.name}:{given.password}".encode()
        return hashlib.blake2b(text, key=self._key).digest()

    def _look(self) -> object:
        try:
            now = self._path.stat()
        except OSError as exc:
            return exc.errno
        return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns

    def _read_again(self) -> None:
        first = self._seen is None
        self._proven = {}
        try:
            self._entries, self._fault = read_entries(self._path), None
        except ConfigError as exc:
            self._entries, self._fault = (), exc
            if not first:
                log.warning("nobody can use the REST API, because of its access file: %s", exc)
        else:
            if not first:
                log.info(
                    "access file %s was read again: %d entries", self._path, len(self._entries)
                )


class Gate:
    """ASGI middleware that authenticates and authorises each request."""

    def __init__(
        self,
        app: Asgi,
        access: Access | None,
        friends: re.Pattern[str] | None,
        hosts: frozenset[str] | None = None,
    ) -> None:
        self.app = app
        self._access = access
        self._friends = friends
        self._hosts = hosts
        self._looks = CapacityLimiter(_LOOKS_AT_ONCE)
        self._checks = Semaphore(_CHECKS_AT_ONCE)
        self._waiting = 0
        self._told = float("-inf")
        self._refused = 0

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        match scope["type"]:
            case "lifespan":
                await self.app(scope, receive, send)
            case "http":
                answer = await self._refusal(scope)
                await (answer or self.app)(scope, receive, send)
            case _:  # there are no websockets yet
                await send({"type": "websocket.close", "code": 1008})

    async def _refusal(self, scope: Scope) -> Asgi | None:
        """Return the answer to a request that is not allowed; None if it is."""
        if has_control_characters(scope["path"]):
            return render(400, "there is a control character in the path. Take it out.")
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host and self._hosts is not None and host_in(host) not in self._hosts:
            return render(
                403,
                f"{host[:200]} is not a name of this listener, which is for this machine alone. Ask localhost, "
                f"name it in rest.advertised.host.name, or set {RestSettings.rest_access_file.name}.",
            )
        origin = headers.get("origin")
        if origin is not None and self._is_stranger(origin, host):
            return render(
                403,
                f"a page of {origin[:200]} may not ask this. "
                f"If it should, name it in {RestSettings.access_control_allow_origin.name}.",
            )
        path = scope["path"].rstrip("/") or "/"
        if self._access is None or (path == "/health" and scope["method"] in _READS):
            return None
        try:
            return await self._refusal_of(self._access, scope, headers, path)
        except ConfigError:
            return render(503, "the access file cannot be used, so nobody is let in. See the log.")

    async def _refusal_of(
        self, access: Access, scope: Scope, headers: Headers, path: str
    ) -> Asgi | None:
        given = parse_authorization(headers.get("authorization", ""))
        if given is None:
            return _who_are_you("this needs a login: a name and a password, or a bearer token.")
        entry = await self._on_a_thread(access.recall, given)
        if entry is None and isinstance(given, Login):
            if self._waiting >= _CHECKS_WAITING:
                message = "too many logins are being checked. Try again in some seconds."
                return render(429, message, {"Retry-After": "5"})
            entry = await self._check(access, given)
        if entry is None:
            self._tell(given, scope.get("client"))
            return _who_are_you("the login is not right. Check the name and the password or token.")
        role = needed_role(scope["method"], path)
        if entry.role < role:
            return render(403, f"this needs the role {role}, and {entry.name} has {entry.role}.")
        scope[_ENTRY] = entry
        return None

    async def _check(self, access: Access, given: Login) -> Entry | None:
        self._waiting += 1
        try:
            async with self._checks:
                # A page asks for many files at once: the first of them has proven the login.
                known = await self._on_a_thread(access.recall, given)
                return known or await self._on_a_thread(access.check, given)
        finally:
            self._waiting -= 1

    async def _on_a_thread(
        self, ask: Callable[[Given], Entry | None], given: Given
    ) -> Entry | None:
        return await to_thread.run_sync(ask, given, limiter=self._looks)

    def _is_stranger(self, origin: str, host: str) -> bool:
        if self._friends is not None and self._friends.fullmatch(origin):
            return False
        return is_foreign(origin, host)

    def _tell(self, given: Login | str, client: Any) -> None:
        """Log a wrong login, but not every one of many."""
        self._refused += 1
        now = time.monotonic()
        if now - self._told < _TELL_EVERY.total_seconds():
            return
        what = f"login as {given.name[:64]!r}" if isinstance(given, Login) else "token"
        where = client[0] if client else "somebody"
        log.warning("a %s from %s was refused; refused so far: %d", what, where, self._refused)
        self._told = now


def guard(app: FastAPI, props: Mapping[str, str], listener: Listener) -> Access | None:
    """Put the gate in front of an app as these settings say; return the known users, None if no login is needed."""
    settings = RestSettings(props)
    file = settings.rest_access_file
    access = Access(Path(str(file).strip())) if file else None
    origins = [origin for origin in split_list(settings.access_control_allow_origin) if origin]
    friends = _pattern(origins) if origins else None
    hosts = own_hosts(listener) if access is None else None
    app.add_middleware(Gate, access=access, friends=friends, hosts=hosts)
    if friends is not None:
        methods = [method for method in split_list(settings.access_control_allow_methods) if method]
        app.add_middleware(
            CORSMiddleware,
            allow_origins=["*"] if "*" in origins else [],
            allow_origin_regex=friends.pattern,
            allow_methods=methods or _JETTYS_METHODS,
            allow_headers=["Authorization", "Content-Type", "X-Requested-With"],
        )
    return access


def _pattern(origins: Iterable[str]) -> re.Pattern[str]:
    """Return what matches any of these origins; a * matches anything, as it does for Connect."""
    return re.compile("|".join(re.escape(origin).replace(r"\*", ".*") for origin in origins))


def _who_are_you(message: str) -> Asgi:
    answer = render(401, message)
    for challenge in _CHALLENGES:
        answer.headers.append("WWW-Authenticate", challenge)
    return answer
