import os
from pathlib import Path

import pytest

from heliograph.dataplane import context
from heliograph.dataplane.context import archive_place, plan_settings

JAVA = "spark.driver.extraJavaOptions"


def test_spark_starts_from_the_archive_of_its_classes_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.dataplane.context.sys.prefix", str(tmp_path))
    assert "SharedArchiveFile" not in plan_settings(2, {})[JAVA]

    archive_place().parent.mkdir(parents=True)
    archive_place().touch()

    assert f"-XX:SharedArchiveFile={archive_place()}" in plan_settings(2, {})[JAVA]
    assert plan_settings(2, {JAVA: "-Xss1m"})[JAVA] == "-Xss1m"


def test_what_is_set_for_the_jvm_alone_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)

    with context._launching():
        assert os.environ["PYSPARK_PYTHON"] != "python3.12"
        assert "SPARK_LAUNCHER_OPTS" in os.environ

    assert os.environ["PYSPARK_PYTHON"] == "python3.12"
    assert "SPARK_LAUNCHER_OPTS" not in os.environ
