import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from heliograph.embedded.fetchers import Artifact, FetchFailed, select_reason
from heliograph.embedded.jars import BROKER, JarSet, obtain_jars
from heliograph.embedded.java import Java
from heliograph.errors import Missing

JAVA = Java(Path("/nowhere"), "17.0.1")
WANTED = JarSet("small-1", "Small 1", (Artifact("org.small", "small", "1"),), about=2)


class Shelf:
    """A fetcher with two jars, or with a reason why it has none."""

    name = "Shelf"

    def __init__(self, reason: str | None = None, *, broken: bool = False) -> None:
        self.reason = reason
        self.broken = broken
        self.fetched = 0

    def retrieve(
        self, artifacts: Sequence[Artifact], folder: Path, report: Callable[[int, str], None]
    ) -> None:
        if self.reason:
            raise FetchFailed(self.reason)
        self.fetched += 1
        for name in (*(f"{a.name}-{a.version}.jar" for a in artifacts), "needed-2.jar"):
            with zipfile.ZipFile(folder / name, "w") as jar:
                jar.writestr("A.class", name * 10)
            if self.broken:
                (folder / name).write_bytes((folder / name).read_bytes()[:40])
        report(2, "needed-2.jar")


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf()
    monkeypatch.setattr("heliograph.embedded.jars.fetchers", lambda _: [shelf])
    return shelf


def test_a_set_is_fetched_once(shelf: Shelf, tmp_path: Path) -> None:
    first = obtain_jars(WANTED, JAVA, tmp_path)

    assert obtain_jars(WANTED, JAVA, tmp_path) == first
    assert first.names == ("needed-2.jar", "small-1.jar")
    assert first.classpath == f"{tmp_path}/small-1/needed-2.jar:{tmp_path}/small-1/small-1.jar"
    assert shelf.fetched == 1
    assert not [left for left in tmp_path.iterdir() if left.name not in ("small-1", "small-1.lock")]


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text('{"artifacts": ['),
        lambda folder: (folder / "small-1.jar").unlink(),
        lambda folder: (folder / "small-1.jar").write_bytes(b"half"),
        lambda folder: (folder / "small-1.jar").write_bytes(
            bytes(len((folder / "small-1.jar").read_bytes()))
        ),
    ],
    ids=[
        "no manifest",
        "half a manifest",
        "a jar gone",
        "half a jar",
        "other bytes of the same size",
    ],
)
def test_a_harmed_set_is_fetched_again(
    shelf: Shelf, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    whole = obtain_jars(WANTED, JAVA, tmp_path)
    before = (whole.folder / "small-1.jar").read_bytes()
    harm(whole.folder)

    assert obtain_jars(WANTED, JAVA, tmp_path) == whole
    assert shelf.fetched == 2
    assert (whole.folder / "small-1.jar").read_bytes() == before


def test_a_copied_cache_with_other_times_is_good(shelf: Shelf, tmp_path: Path) -> None:
    whole = obtain_jars(WANTED, JAVA, tmp_path)
    os.utime(whole.folder / "small-1.jar", (1, 1))

    obtain_jars(WANTED, JAVA, tmp_path)

    assert shelf.fetched == 1


def test_the_next_fetcher_is_tried_when_one_brings_broken_jars(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = Shelf()
    monkeypatch.setattr("heliograph.embedded.jars.fetchers", lambda _: [Shelf(broken=True), good])

    obtain_jars(WANTED, JAVA, tmp_path)

    assert good.fetched == 1


def test_without_a_network_one_sentence_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "heliograph.embedded.jars.fetchers", lambda _: [Shelf("no route"), Shelf("unknown host")]
    )

    with pytest.raises(Missing, match=r"kafka_2\.13:4\.3\.1.*no route.*unknown host.*copy") as told:
        obtain_jars(BROKER, JAVA, tmp_path)

    assert "\n" not in str(told.value)


def test_the_network_is_a_better_reason_than_what_followed_from_it() -> None:
    said = [
        "[ERROR] No plugin found for prefix 'dependency'",
        "unresolved dependency: org.small#small;1: not found",
        "Server access error at url x (java.net.ConnectException: Connection refused)",
    ]

    assert select_reason(said) == "Connection refused"
    assert select_reason(said[:2]) == "unresolved dependency: org.small#small;1: not found"
    assert select_reason([]) is None
