import tarfile
from pathlib import Path

import pytest

from heliograph.errors import ConfigError
from heliograph.spark.bundle import build_archive, check_archive
from heliograph.spark.context import plan_settings

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_archive(tmp_path_factory.mktemp("archive") / "heliograph-env.tar.gz").path


def test_an_archive_holds_what_executors_import_and_no_spark(archive: Path) -> None:
    check_archive(archive)
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        members = tar.getmembers()
    for wanted in ("heliograph/spark/daemon.py", "kafka/__init__.py", "pyarrow/__init__.py"):
        assert wanted in names
    assert "heliograph/cli/main.py" not in names
    assert not [name for name in names if name.startswith(("pyspark", "pyarrow/tests"))]
    assert all(member.isfile() and not member.name.startswith(("/", "..")) for member in members)
    assert archive.stat().st_size < 60_000_000
    assert list(archive.parent.iterdir()) == [archive]


def test_an_archive_of_other_code_is_refused(archive: Path, tmp_path: Path) -> None:
    stale = tmp_path / "stale.tar.gz"
    with tarfile.open(archive) as old, tarfile.open(stale, "w:gz") as new:
        first = old.next()
        assert first is not None
        content = old.extractfile(first)
        assert content is not None
        text = content.read().replace(b'"code": "', b'"code": "0')
        first.size = len(text)
        (tmp_path / "stamp").write_bytes(text)
        with (tmp_path / "stamp").open("rb") as stamp:
            new.addfile(first, stamp)
    with pytest.raises(ConfigError, match=r"another heliograph.*heliograph package"):
        check_archive(stale)


@pytest.mark.parametrize("content", [None, b"", b"not an archive", b"\x1f\x8b\x08\x00"])
def test_an_archive_that_is_none_is_told_before_spark_starts(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "heliograph-env.tar.gz"
    if content is not None:
        path.write_bytes(content)
    settings = {
        "spark.master": "spark://localhost:7077",
        "spark.archives": f"{path}#heliograph-env",
    }
    with pytest.raises(ConfigError, match=r"spark\.archives.*heliograph package"):
        plan_settings(2, settings)
