"""Sets of jars from Maven Central, each in a folder of the cache, fetched once and checked at each use.

A folder is complete if and only if its manifest is there, because the manifest is written last, in a temporary
folder that is then renamed. A jar that changed later fails the manifest's size or sha256, and its set is
fetched again.
"""

import fcntl
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from heliograph.embedded.fetchers import Artifact, FetchFailed, fetchers
from heliograph.embedded.java import Java
from heliograph.embedded.places import cache_folder
from heliograph.embedded.progress import open_progress
from heliograph.errors import Missing

KAFKA_VERSION = "4.3.1"
_MANIFEST = "manifest.json"
_LOGGING = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


@dataclass(frozen=True, slots=True)
class JarSet:
    name: str
    title: str
    artifacts: tuple[Artifact, ...]
    about: int
    """How many jars to expect, for the progress bar only."""


def _kafka(artifact: str) -> Artifact:
    return Artifact("org.apache.kafka", artifact, KAFKA_VERSION)


BROKER = JarSet(
    name=f"kafka-{KAFKA_VERSION}",
    title=f"Kafka {KAFKA_VERSION}",
    artifacts=(_kafka("kafka_2.13"), _LOGGING),
    about=46,
)
PEER = JarSet(
    name=f"mirrormaker-{KAFKA_VERSION}",
    title=f"MirrorMaker {KAFKA_VERSION}",
    artifacts=(
        _kafka("connect-mirror"),
        _kafka("connect-mirror-client"),
        _kafka("connect-runtime"),
        _kafka("connect-json"),
        _LOGGING,
    ),
    about=61,
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file was when it was last known to be good."""

    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Jars:
    """A complete set on this machine."""

    folder: Path
    names: tuple[str, ...]

    @property
    def classpath(self) -> str:
        return ":".join(str(self.folder / name) for name in self.names)


def obtain_jars(wanted: JarSet, java: Java, cache: Path | None = None) -> Jars:
    """Return the set, fetching it when it is absent or broken. Blocks while another process fetches it."""
    cache = cache or cache_folder()
    folder = cache / wanted.name
    with lock(cache / f"{wanted.name}.lock"):
        stamps = _check(folder, wanted)
        if stamps is None:
            stamps = _fetch(wanted, java, folder)
    return Jars(folder, tuple(sorted(stamps)))


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock between processes until the block ends; it is released if its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _check(folder: Path, wanted: JarSet) -> Mapping[str, Stamp] | None:
    """Return the set's files if all are as they were fetched, else None."""
    try:
        written = json.loads((folder / _MANIFEST).read_text())
        stamps = {name: Stamp(**stamp) for name, stamp in written["files"].items()}
        if written["artifacts"] != [str(artifact) for artifact in wanted.artifacts]:
            return None
        whole = all(_unchanged(folder / name, stamp) for name, stamp in stamps.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return stamps if whole else None


def _unchanged(file: Path, stamp: Stamp) -> bool:
    now = file.stat()
    if now.st_size != stamp.size:
        return False
    return now.st_mtime_ns == stamp.mtime_ns or _sha256(file) == stamp.sha256


def _fetch(wanted: JarSet, java: Java, folder: Path) -> Mapping[str, Stamp]:
    tried: list[str] = []
    with open_progress(f"Fetching {wanted.title}, once, into {folder}") as report:
        for fetch in fetchers(java):
            temporary = Path(tempfile.mkdtemp(prefix=f"{wanted.name}.", dir=folder.parent))
            try:
                fetch.retrieve(
                    wanted.artifacts, temporary, lambda n, what: report(n, wanted.about, what)
                )
                return _settle(wanted, temporary, folder)
            except FetchFailed as exc:
                tried.append(f"{fetch.name} ({exc})")
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    names = ", ".join(str(artifact) for artifact in wanted.artifacts)
    raise Missing(
        f"{wanted.title} could not be fetched from Maven Central ({names}): tried {' and '.join(tried)}. "
        f"Connect this machine to the network, or copy {folder} from a machine that has it, and run this again."
    )


def _settle(wanted: JarSet, temporary: Path, folder: Path) -> Mapping[str, Stamp]:
    stamps = {jar.name: _stamp(jar) for jar in sorted(temporary.glob("*.jar"))}
    for artifact in wanted.artifacts:
        if f"{artifact.name}-{artifact.version}.jar" not in stamps:
            raise FetchFailed(f"{artifact} did not come")
    manifest = {
        "artifacts": [str(artifact) for artifact in wanted.artifacts],
        "files": {name: asdict(stamp) for name, stamp in stamps.items()},
    }
    (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1))
    temporary.chmod(0o755)
    if folder.exists():
        shutil.rmtree(folder)
    temporary.rename(folder)
    return stamps


def _stamp(jar: Path) -> Stamp:
    try:
        with zipfile.ZipFile(jar) as archive:
            broken = archive.testzip()
    except zipfile.BadZipFile as exc:
        raise FetchFailed(f"{jar.name} came broken") from exc
    if broken:
        raise FetchFailed(f"{jar.name} came broken at {broken}")
    now = jar.stat()
    return Stamp(now.st_size, now.st_mtime_ns, _sha256(jar))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
