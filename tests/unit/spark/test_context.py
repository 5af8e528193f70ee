from pathlib import Path

import pytest

from heliograph.spark.context import plan_settings
from heliograph.spark.jvm import archive_place

JAVA = "spark.driver.extraJavaOptions"


def test_spark_starts_from_the_archive_of_its_classes_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.spark.jvm.sys.prefix", str(tmp_path))
    assert "SharedArchiveFile" not in plan_settings(2, {})[JAVA]

    archive_place().parent.mkdir(parents=True)
    archive_place().touch()

    assert f"-XX:SharedArchiveFile={archive_place()}" in plan_settings(2, {})[JAVA]
    assert plan_settings(2, {JAVA: "-Xss1m"})[JAVA] == "-Xss1m"


def test_a_local_spark_has_a_core_for_each_task_and_fails_a_slice_at_once() -> None:
    settings = plan_settings(5, {})
    assert settings["spark.master"] == "local[5]"
    assert settings["spark.task.maxFailures"] == "1", "a slice is started again by its driver"
    assert settings["spark.python.daemon.module"] == "heliograph.spark.daemon"
