"""Connect clients that others wrote and publish: a library for Java, and a command with its library for Python."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heliograph.embedded.fetchers import Artifact
from heliograph.embedded.jars import JarSet, obtain_jars
from heliograph.embedded.java import find_java
from lab.clusters import eventually

# The version that AKHQ 0.25 is built with.
SOURCELAB = JarSet(
    name="kafka-connect-client-4.0.4",
    title="kafka-connect-client 4.0.4",
    artifacts=(Artifact("org.sourcelab", "kafka-connect-client", "4.0.4"),),
    about=9,
)
_PROGRAM = Path(__file__).parent / "java" / "DriveConnect.java"
_SECONDS = 30


class Refused(Exception):
    """What the Java client throws for an error that the server told of."""

    def __init__(self, thrown: str, code: int | None, message: str | None) -> None:
        super().__init__(thrown, code, message)
        self.thrown, self.code, self.message = thrown, code, message


class JavaClient:
    """org.sourcelab's KafkaConnectClient in a process of its own; a method is called by its Java name."""

    def __init__(self, url: str, folder: Path) -> None:
        java = find_java()
        classpath = obtain_jars(SOURCELAB, java).classpath
        self._errors = folder / "java-client.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(java.command), "-Xmx128m", "-cp", classpath, str(_PROGRAM), url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )

    def call(self, method: str, *arguments: str | int | bool | Mapping[str, str]) -> Any:
        """Return what the client parsed, or raise Refused with what it threw."""
        told = eventually(lambda: self._answer(json.dumps([method, *arguments])))
        if "thrown" in told:
            raise Refused(told["thrown"], told.get("code"), told.get("message"))
        return told["answer"]

    def _answer(self, asked: str) -> Any:
        """Return what the program says; None where Connect wants to be asked again after a rebalance."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{asked}\n")
        line = self._process.stdout.readline()
        assert line, f"the Java client ended:\n{self._errors.read_text()}"
        told = json.loads(line)
        return None if "rebalance" in (told.get("message") or "") else told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS)
        finally:
            self._process.kill()
            self._process.stdout.close()


class Command:
    """`kc` of kafka-connect-py, as a user types it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def say(self, *words: str) -> str:
        """Return what it prints; it ends with 0 whatever the server says."""
        command = [str(Path(sys.executable).parent / "kc"), "--url", self._url, *words]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert ended.returncode == 0, f"kc {' '.join(words)}: {ended.stdout}{ended.stderr}"
        return ended.stdout.strip()

    def ask(self, *words: str) -> Any:
        """Return the JSON that it prints."""
        said = self.say(*words)
        try:
            return json.loads(said)
        except ValueError:
            raise AssertionError(f"kc {' '.join(words)}: {said}") from None

    def status(self, name: str) -> Any:
        """Return a connector's status; None where there is none, as shortly after it was made."""
        said = self.say("status", name)
        if said.startswith("404 Client Error"):
            return None
        return json.loads(said)
