"""The archive that executors unpack: our code and what it imports, for one minor version of Python.

pyspark is not in it: executors have Spark's own. Parts of pyarrow that no task imports, which are half
of it, are not in it either. Modules are compiled in advance, so that no executor has to.
"""

import compileall
import gzip
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pyspark

import heliograph
from heliograph.errors import ConfigError, Missing
from heliograph.spark.masters import python_name

_NEEDS = ("kafka-python", "pyarrow", "crc32c", "cramjam", "cryptography", "cffi")
_LEFT_OUT = (
    "*/__pycache__/*",
    "*.py[xid]",
    "*.px[id]",
    "pyarrow/tests/*",
    "pyarrow/include/*",
    "pyarrow/src/*",
    "pyarrow/*_flight*",
    "pyarrow/*_s3*",
    "pyarrow/libarrow_python*.so",
    "pyarrow/libarrow_python*.so.*.*.*",
    "kafka/cli/*",
)
_ROOMS = ("copying", "kafka", "net", "policy", "spark", "verify", "wire")
_ENTRY_POINTS = (
    "heliograph.spark.daemon",
    "heliograph.spark.slice_task",
    "heliograph.verify.job",
    "cryptography.hazmat.primitives.serialization.pkcs12",
)
_STAMP = "heliograph-env.json"
_CODE = Path(heliograph.__file__).parent


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that was built."""

    path: Path
    packed_bytes: int
    unpacked_bytes: int
    contents: tuple[str, ...]


class ImportsNothing(Missing):
    """What was packed cannot be imported without the environment it came from."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the archive was not written, because its modules do not import on their own: {self.reason}. "
            "Install heliograph's requirements anew in this Python, then build it again."
        )


def build_archive(output: Path) -> Archive:
    """Write the archive for this Python; afterwards it is complete or does not exist."""
    with tempfile.TemporaryDirectory(prefix="heliograph-package-") as name:
        folder = Path(name) / "env"
        contents = _fill(folder)
        _check_imports(folder)
        unpacked = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        output.parent.mkdir(parents=True, exist_ok=True)
        draft = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            _pack(folder, draft)
            draft.replace(output)
        finally:
            draft.unlink(missing_ok=True)
    return Archive(output, output.stat().st_size, unpacked, contents)


def check_archive(path: Path) -> None:
    """Raise if an archive is missing, or was built from other code or for another Python than this."""
    again = f"Run `heliograph package --output {path}`."
    if not path.is_file():
        raise ConfigError(f"spark.archives: there is no {path}. {again}")
    try:
        with tarfile.open(path, "r:gz") as tar:
            first = tar.next()
            stamp = tar.extractfile(first) if first and first.name == _STAMP else None
            told = json.load(stamp) if stamp else None
    except (tarfile.TarError, OSError, EOFError, ValueError) as exc:
        raise ConfigError(f"spark.archives: {path} cannot be read ({exc}). {again}") from exc
    if told != _stamp():
        raise ConfigError(
            f"spark.archives: {path} holds another heliograph, or one for another Python, than runs here. {again}"
        )


def _stamp() -> dict[str, str]:
    """Return what an archive must have in common with the driver."""
    digest = hashlib.sha256()
    for file in _our_files():
        digest.update(str(file.relative_to(_CODE)).encode() + b"\0" + file.read_bytes())
    return {"python": python_name(), "code": digest.hexdigest()}


def _our_files() -> list[Path]:
    """Return our files that executors import: the packages that tasks use, and what all packages share."""
    rooms = (file for room in _ROOMS for file in (_CODE / room).glob("*.py"))
    return sorted((*_CODE.glob("*.py"), *rooms))


def _fill(folder: Path) -> tuple[str, ...]:
    """Put everything into a folder; return the names and versions of what is in it."""
    found = list(_distributions(_NEEDS))
    for dist in found:
        for source, place in _files_of(dist):
            _copy(source, folder / place)
    for file in _our_files():
        _copy(file, folder / "heliograph" / file.relative_to(_CODE))
    compileall.compile_dir(
        folder,
        quiet=2,
        stripdir=str(folder),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    (folder / _STAMP).write_text(json.dumps(_stamp()))
    return ("heliograph", *(f"{dist.name} {dist.version}" for dist in found))


def _distributions(names: tuple[str, ...]) -> Iterator[Distribution]:
    for name in names:
        try:
            yield distribution(name)
        except PackageNotFoundError as exc:
            raise Missing(
                f"{name} is not installed in {sys.executable}, so it cannot be packed; "
                "install heliograph's requirements there."
            ) from exc


def _files_of(dist: Distribution) -> Iterator[tuple[Path, Path]]:
    """Yield where the files of a distribution are, and where each belongs."""
    for file in dist.files or ():
        place = Path(file)
        wanted = ".." not in place.parts and not any(fnmatch(str(file), p) for p in _LEFT_OUT)
        if wanted and (source := Path(str(file.locate()))).is_file():
            yield source, place


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


def _check_imports(folder: Path) -> None:
    """Import what executors import, in a Python that sees the folder and Spark and nothing else."""
    spark = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    path = os.pathsep.join(map(str, (folder, *spark)))
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", f"import {', '.join(_ENTRY_POINTS)}"],
        cwd=folder,
        env={"PYTHONPATH": path, "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ImportsNothing(done.stderr.strip().rpartition("\n")[2])


def _pack(folder: Path, output: Path) -> None:
    """Write a tar.gz that depends on the files alone; the stamp comes first, so that it is read at once."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name != _STAMP)
    with (
        output.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in files:
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size = path.stat().st_size
            member.mode = 0o755 if ".so" in path.name else 0o644
            with path.open("rb") as content:
                tar.addfile(member, content)
