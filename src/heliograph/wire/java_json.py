"""JSON as Jackson writes it: compact, UTF-8, members in their order. Connect compares such bytes."""

import json
import re

# Jackson leaves text as UTF-8, except for these; a character beyond the BMP becomes two escapes.
_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def to_java_json(value: object) -> str:
    """Return a value made of dicts, lists, texts, whole numbers, booleans and None as JSON text."""
    match value:
        case dict():
            return f"{{{','.join(f'{quote(k)}:{to_java_json(v)}' for k, v in value.items())}}}"
        case list() | tuple():
            return f"[{','.join(map(to_java_json, value))}]"
        case str():
            return quote(value)
        case _:
            return json.dumps(value)


def quote(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
