"""The two ways to get jars by artifact name: an installed Maven, and the Ivy that comes with pyspark."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from heliograph.embedded.java import Java

# A network that drops packets keeps Java waiting for minutes on each file.
_SILENCE = timedelta(seconds=90)
# The most informative pattern first.
_REASONS = (
    re.compile(r"(unknown ?host.*|connection refused.*|timed out.*|unreachable.*)", re.IGNORECASE),
    re.compile(r"(unresolved dependency: .*|could not find artifact .*)", re.IGNORECASE),
    re.compile(r"\[ERROR\] (.+)"),
)


class FetchFailed(Exception):
    """One fetcher could not get the jars; another may."""


@dataclass(frozen=True, slots=True)
class Artifact:
    group: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


class Fetcher(Protocol):
    name: str

    def retrieve(
        self, artifacts: Sequence[Artifact], folder: Path, report: Callable[[int, str], None]
    ) -> None:
        """Put the artifacts and all that they need at run time into `folder`, or raise FetchFailed."""


def fetchers(java: Java) -> Iterator[Fetcher]:
    """Yield the fetchers of this machine, the faster one first."""
    if command := shutil.which("mvn"):
        yield Maven(command, java)
    if (ivy := _ivy_jar()) is not None:
        yield Ivy(ivy, java)


def _ivy_jar() -> Path | None:
    # Found, not imported: importing pyspark takes a second.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"), None)


class Maven:
    name = "Maven"

    def __init__(self, command: str, java: Java) -> None:
        self._command = command
        self._java = java

    def retrieve(
        self, artifacts: Sequence[Artifact], folder: Path, report: Callable[[int, str], None]
    ) -> None:
        with tempfile.TemporaryDirectory() as work:
            pom = Path(work) / "pom.xml"
            pom.write_text(_pom(artifacts))
            command = [self._command, "--batch-mode", "--strict-checksums", f"--file={pom}"]
            command += [
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={folder}",
            ]
            _follow(command, re.compile(r"(?:Copying|Downloaded.*/)\s*([^\s/]+\.jar)"), report)


class Ivy:
    name = "Ivy"

    def __init__(self, jar: Path, java: Java) -> None:
        self._jar = jar
        self._java = java

    def retrieve(
        self, artifacts: Sequence[Artifact], folder: Path, report: Callable[[int, str], None]
    ) -> None:
        with tempfile.TemporaryDirectory() as work:
            module = Path(work) / "ivy.xml"
            module.write_text(_ivy_module(artifacts))
            command = [str(self._java.command), "-jar", str(self._jar), "-ivy", str(module)]
            # A new cache each time: a shared one would return a broken file forever.
            command += ["-cache", str(Path(work) / "cache"), "-confs", "default"]
            command += [
                "-retrieve",
                str(folder / "[artifact]-[revision](-[classifier]).[ext]"),
                "-types",
                "jar",
                "bundle",
            ]
            _follow(command, re.compile(r"(?:found|SUCCESSFUL \]) [\w.-]+#([^\s!]+)"), report)


def _pom(artifacts: Sequence[Artifact]) -> str:
    wanted = "".join(
        f"<dependency><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version></dependency>"
        for artifact in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>heliograph</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )


def _ivy_module(artifacts: Sequence[Artifact]) -> str:
    wanted = "".join(
        f"<dependency org={quoteattr(artifact.group)} name={quoteattr(artifact.name)} "
        f'rev={quoteattr(artifact.version)} conf="default->default"/>'
        for artifact in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="heliograph" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )


def _follow(command: list[str], step: re.Pattern[str], report: Callable[[int, str], None]) -> None:
    """Run a fetcher, reporting each jar once; raise FetchFailed with its own reason when it fails."""
    seen: set[str] = set()
    said: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        silent = threading.Event()
        timer = _watch(running, silent)
        for line in running.stdout:
            timer.cancel()
            timer = _watch(running, silent)
            if (match := step.search(line)) and match[1] not in seen:
                seen.add(match[1])
                report(len(seen), match[1].replace(";", " "))
            else:
                said.append(line.strip())
        timer.cancel()
    if silent.is_set():
        raise FetchFailed(f"silent for {_SILENCE.seconds} s")
    if running.returncode != 0:
        raise FetchFailed(select_reason(said) or f"exit code {running.returncode}")


def select_reason(said: Sequence[str]) -> str | None:
    """Return the part of a fetcher's output that best says why it failed."""
    for reason in _REASONS:
        for line in said:
            if match := reason.search(line):
                return match[1][:120].strip(" .:()[]")
    return None


def _watch(running: subprocess.Popen[str], silent: threading.Event) -> threading.Timer:
    def give_up() -> None:
        silent.set()
        running.kill()

    timer = threading.Timer(_SILENCE.total_seconds(), give_up)
    timer.daemon = True
    timer.start()
    return timer
