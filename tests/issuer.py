"""An identity provider on loopback: it hands out signed tokens for an id and a secret, and shows its keys."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "kafka"


class Issuer:
    """Serves `/token` and `/keys`; `answer` is the status that `/token` gives to who is known."""

    def __init__(self, client_id: str, secret: str, lifetime: float = 60) -> None:
        self._known = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        self._subject = client_id
        self._key = rsa.generate_private_key(65537, 2048)
        self.lifetime = lifetime
        self.status = 200
        self.scopes: list[str | None] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def grant(self, authorization: str | None, body: str) -> tuple[int, dict[str, Any]]:
        form = parse_qs(body)
        if authorization != self._known or form.get("grant_type") != ["client_credentials"]:
            return 401, {"error": "invalid_client"}
        if self.status != 200:
            return self.status, {"error": "not_now"}
        self.scopes.append(form["scope"][0] if "scope" in form else None)
        return 200, {"access_token": self._token(), "expires_in": self.lifetime}

    def keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
        return {"keys": [key | {"n": _number(numbers.n), "e": _number(numbers.e)}]}

    def _token(self) -> str:
        now = int(time.time())
        claims = {
            "sub": self._subject,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self.lifetime,
            "scope": "mirror",
        }
        head = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        said = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
        return f"{said}.{_encode(self._key.sign(said.encode(), padding.PKCS1v15(), SHA256()))}"


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, issuer.keys())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(*issuer.grant(self.headers["Authorization"], body))

        def _answer(self, status: int, answer: dict[str, Any]) -> None:
            sent = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))
