import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from heliograph.errors import Missing

OLDEST = 17
_DEBIAN_FOLDERS = Path("/usr/lib/jvm")
_INSTALL = (
    f"Install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one."
)


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: str

    @property
    def command(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        """17 for 17.0.15, 8 for 1.8.0_392."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java() -> Java:
    """Return the first Java that is new enough: JAVA_HOME's, PATH's, then Debian's folders."""
    return select_java(found for home in _homes() if (found := _inspect(home)))


def select_java(found: Iterable[Java]) -> Java:
    too_old: list[Java] = []
    for java in found:
        if java.major >= OLDEST:
            return java
        too_old.append(java)
    if too_old:
        names = ", ".join(f"Java {java.major} in {java.home}" for java in too_old)
        raise Missing(
            f"no usable Java: found {names}, but Kafka and Spark need {OLDEST}. {_INSTALL}"
        )
    raise Missing(f"no Java: looked at JAVA_HOME, PATH and {_DEBIAN_FOLDERS}. {_INSTALL}")


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent
    yield from sorted(_DEBIAN_FOLDERS.glob("*"), reverse=True)


def _inspect(home: Path) -> Java | None:
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    version = _written_version(home) or _spoken_version(home)
    return Java(home, version) if version else None


def _written_version(home: Path) -> str | None:
    """Read the release file that every JDK since 9 carries: no JVM is started for it."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(\d[^"]*)"', text, re.MULTILINE)
    return match[1] if match else None


def _spoken_version(home: Path) -> str | None:
    answer = subprocess.run(
        [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False, timeout=30
    )
    match = re.search(r'version "(\d[^"]*)"', answer.stderr)
    return match[1] if match else None
