"""Request bodies: bounded, and read as leniently as Connect reads them.

A body that is not JSON or has the wrong shape is a 500 in Connect and a 400 here (ADR 0007).
"""

import json
from typing import Annotated, Any, NoReturn

from fastapi import Depends, Request

from heliograph.connect.herder import RestError

MAX_BODY_BYTES = 1 << 20
_JSON = "application/json"


async def _read_json(request: Request) -> Any:
    kind = request.headers.get("content-type", _JSON).split(";")[0].strip().lower()
    if kind != _JSON:
        raise RestError(415, "HTTP 415 Unsupported Media Type")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            raise RestError(413, f"the body is longer than {MAX_BODY_BYTES} bytes. Send less.")
    if not content.strip():
        raise RestError(400, "the request has no body. Send JSON.")
    return parse(bytes(content))


Json = Annotated[Any, Depends(_read_json)]


def parse(content: bytes) -> Any:
    """Parse JSON. What follows the value is ignored; a fraction stays text."""
    try:
        text = content.decode("utf-8-sig").lstrip()
        value, _ = _DECODER.raw_decode(text)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair can be shown nowhere
    except (ValueError, RecursionError) as exc:
        raise RestError(400, f"the body is not JSON: {exc}. Correct it and send it again.") from exc
    return value


def config_in(value: Any, what: str) -> dict[str, str | None]:
    """Return a flat configuration; numbers and booleans are the text that they were written as."""
    if not isinstance(value, dict):
        raise RestError(400, f"{what} must be a JSON object of keys and values. Correct it.")
    return {key: _as_text(key, item) for key, item in value.items()}


def fields_in(value: Any, what: str, *known: str) -> dict[str, Any]:
    """Return an object that has no other fields than these."""
    if not isinstance(value, dict):
        raise RestError(400, f"{what} must be a JSON object. Correct it.")
    for key in value:
        if key not in known:
            raise RestError(
                400, f'Unrecognized field "{key}" in {what}; known: {", ".join(known)}.'
            )
    return value


def _as_text(key: str, value: Any) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case int() | str():
            return str(value)
        case None:
            return None
        case _:
            raise RestError(400, f"{key} must be a text, a number, true or false. Correct it.")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_float=str, parse_constant=_refuse)
