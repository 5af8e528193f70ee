"""`${file:/path:key}`, `${env:NAME}` and `${dir:/path:name}` in values.

Kafka requires each provider to be declared under config.providers; in a file of the operator these work
undeclared too. What is sent to a worker is resolved by the providers that the worker declares, and by
no others: a user who may send a connector must not thereby read the worker's files. As in Kafka, a value
is scanned once, and what cannot be found stays as it is written.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from heliograph.config.fields import invalid, split_list
from heliograph.config.mistakes import UnreadableFile
from heliograph.config.properties import Properties, Written, read_file, read_properties

_KAFKA = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    def find(self, path: str, key: str) -> str | None:
        """Return the value, or None if there is none; raise UnreadableFile if the lookup is impossible."""


@dataclass(frozen=True, slots=True)
class PropertiesFiles:
    allowed: tuple[str, ...] = ()

    def find(self, path: str, key: str) -> str | None:
        if not path or not _within(path, self.allowed):
            return None
        return read_properties(Path(path)).entries.get(key)


@dataclass(frozen=True, slots=True)
class Directories:
    allowed: tuple[str, ...] = ()

    def find(self, path: str, key: str) -> str | None:
        file = Path(path) / key
        if not path or file.parent != Path(path) or not _within(path, self.allowed):
            return None
        try:
            return read_file(file).decode() if file.is_file() else None
        except OSError as exc:
            raise UnreadableFile(str(file), f"cannot be read ({exc.strerror})") from exc
        except UnicodeDecodeError as exc:
            raise UnreadableFile(str(file), f"is not UTF-8 at byte {exc.start}") from None


@dataclass(frozen=True, slots=True)
class Environment:
    variables: Mapping[str, str]
    allowed: str = ".*"

    def find(self, path: str, key: str) -> str | None:
        found = None if path else self.variables.get(key)
        return found if found is not None and re.fullmatch(self.allowed, key) else None

    def __repr__(self) -> str:
        return f"Environment({len(self.variables)} variables)"


class _Expression(NamedTuple):
    written: str
    name: str
    path: str
    key: str


def resolve(
    file: Properties,
    environment: Mapping[str, str],
    worker: Mapping[str, str] | None = None,
) -> Properties:
    """Return the same settings with every expression replaced, and a warning for each that was not.

    With a worker's settings only its providers count, and those of `file` are ignored.
    """
    if worker is None:
        undeclared = _undeclared(environment)
        providers, warnings = _providers(file.entries, environment, undeclared)
    else:
        providers, warnings = _providers(worker, environment, {})[0], []
    entries: dict[str, Written] = {}
    for key, value in file.entries.items():
        entries[key] = value
        if "${" in value and not key.startswith("config.providers"):
            entries[key], missed = _resolve_value(value, providers)
            warnings += missed
    return replace(file, entries=entries, warnings=(*file.warnings, *warnings))


def _resolve_value(value: Written, providers: Mapping[str, Provider]) -> tuple[Written, list[str]]:
    warnings: list[str] = []
    found_any = False

    def substitute(expression: _Expression) -> str:
        nonlocal found_any
        written, name, path, key = expression
        provider = providers.get(name)
        if provider is None:
            known = f"there are {', '.join(sorted(providers))}" if providers else "there are none"
            warnings.append(
                f"{value.origin}: {value.origin.key}: no provider {name!r}, left as written "
                f"({known})"
            )
            return written
        try:
            found = provider.find(path, key)
        except UnreadableFile as exc:
            raise invalid(value.origin.key, value, f"{exc.where} {exc.reason}") from exc
        if found is None:
            warnings.append(
                f"{value.origin}: {value.origin.key}: {written} has no value, left as written"
            )
            return written
        found_any = True
        return found

    text = "".join(
        part if isinstance(part, str) else substitute(part) for part in _expressions(value)
    )
    return Written(text, value.origin, secret=value.secret or found_any), warnings


def _expressions(text: str) -> Iterator[str | _Expression]:
    """Yield the parts of a value in order: plain text, and `${name:key}` or `${name:path:key}`.

    Parsed by hand, because a regular expression of three parts takes the cube of a hostile value's length.
    """
    at = 0
    while (start := text.find("${", at)) >= 0 and (end := text.find("}", start)) >= 0:
        name, colon, rest = text[start + 2 : end].partition(":")
        path, second, key = rest.partition(":")
        written = text[start : end + 1]
        yield text[at:start]
        if colon:
            yield _Expression(written, name, path if second else "", key if second else path)
        else:
            yield written
        at = end + 1
    yield text[at:]


def _undeclared(environment: Mapping[str, str]) -> dict[str, Provider]:
    return {
        "file": PropertiesFiles(),
        "env": Environment(environment),
        "dir": Directories(),
        "directory": Directories(),
    }


def _providers(
    props: Mapping[str, str], environment: Mapping[str, str], undeclared: Mapping[str, Provider]
) -> tuple[dict[str, Provider], list[str]]:
    providers = dict(undeclared)
    warnings: list[str] = []
    for name in split_list(props.get("config.providers", "")):
        prefix = f"config.providers.{name}."
        class_name = props.get(prefix + "class", "").strip()
        paths = split_list(props.get(prefix + "param.allowed.paths", ""))
        match class_name.removeprefix(_KAFKA):
            case "FileConfigProvider":
                providers[name] = PropertiesFiles(paths)
            case "DirectoryConfigProvider":
                providers[name] = Directories(paths)
            case "EnvVarConfigProvider":
                allowed = _pattern(props, prefix + "param.allowlist.pattern")
                providers[name] = Environment(environment, allowed)
            case _ if name not in providers:
                warnings.append(_unknown_class(props, name, class_name))
    return providers, warnings


def _pattern(props: Mapping[str, str], key: str) -> str:
    text = props.get(key, ".*")
    try:
        re.compile(text)
    except re.error as exc:
        raise invalid(key, text, f"a regular expression, and this is none ({exc.msg})") from None
    return text


def _unknown_class(props: Mapping[str, str], name: str, class_name: str) -> str:
    key = f"config.providers.{name}.class"
    value = props.get(key, props["config.providers"])
    where = f"{value.origin}: " if isinstance(value, Written) else ""
    what = f"{class_name} is a Java class" if class_name else "is missing"
    return f"{where}{key}: {what}; known are {_KAFKA}{{File,Directory,EnvVar}}ConfigProvider"


def _within(path: str, allowed: tuple[str, ...]) -> bool:
    try:
        resolved = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        return False  # links that form a loop, a name with a zero byte
    return not allowed or any(resolved.is_relative_to(Path(root).resolve()) for root in allowed)
