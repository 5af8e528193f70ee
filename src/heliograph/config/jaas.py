"""The one line that `sasl.jaas.config` holds: module, control flag, key="value" options, semicolon."""

import re
from dataclasses import dataclass, field

from heliograph.config.fields import NotAllowed

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/        # blanks and comments, as Java's tokenizer skips them
      | (?P<quoted>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
      | (?P<word>[\w.$\-]+)
      | (?P<mark>[=;])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHAPE = 'it reads: <login module class> required username="..." password="...";'


@dataclass(frozen=True, slots=True)
class Login:
    module: str
    options: tuple[tuple[str, str], ...] = field(repr=False)


def parse_jaas(text: str) -> Login:
    """Parse a JAAS line; NotAllowed says what is wrong with it without showing it."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1][1].lower() not in _FLAGS:
        raise NotAllowed(f"after the login module comes one of {', '.join(_FLAGS)}; {_SHAPE}")
    options: list[tuple[str, str]] = []
    at = 2
    while at < len(tokens) and tokens[at] != ("mark", ";"):
        if [kind for kind, _ in tokens[at : at + 3]] not in (
            ["word", "mark", "quoted"],
            ["word", "mark", "word"],
        ) or tokens[at + 1] != ("mark", "="):
            raise NotAllowed(f'option {len(options) + 1} is not of the form key="value"; {_SHAPE}')
        options.append((tokens[at][1], tokens[at + 2][1]))
        at += 3
    if at == len(tokens):
        raise NotAllowed(f"the semicolon at its end is missing; {_SHAPE}")
    if at != len(tokens) - 1:
        raise NotAllowed(f"it holds one login module, not several; {_SHAPE}")
    return Login(tokens[0][1], tuple(options))


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotAllowed(f"character {at + 1} does not belong there; {_SHAPE}")
        if match.lastgroup == "quoted":
            tokens.append(("quoted", _ESCAPE.sub(_unescape, match[0][1:-1])))
        elif match.lastgroup is not None:
            tokens.append((match.lastgroup, match[0]))
        at = match.end()
    return tokens


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
