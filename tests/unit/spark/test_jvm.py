import os
from pathlib import Path

import pytest

from heliograph.spark import jvm
from heliograph.spark.context import plan_settings


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr("heliograph.spark.jvm.sys.prefix", str(tmp_path))
    jvm.options_place().parent.mkdir(parents=True)
    jvm.options_place().write_text("-Da=b")


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("extra", "environment", "without"),
    [
        ({}, {}, True),
        ({"spark.driver.memory": "1g"}, {}, True),
        ({"spark.jars.packages": "a:b:1"}, {}, False),
        ({"spark.driver.extraClassPath": "x.jar"}, {}, False),
        ({}, {"SPARK_CONF_DIR": "conf"}, False),
    ],
)
def test_only_a_plain_local_spark_is_started_without_its_script(
    extra: dict[str, str],
    environment: dict[str, str],
    without: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)

    assert jvm._is_prepared(plan_settings(2, extra)) is without


def test_a_spark_that_was_not_prepared_is_started_by_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.spark.jvm.sys.prefix", str(tmp_path))

    assert not jvm._is_prepared(plan_settings(2, {}))


@pytest.mark.usefixtures("prepared")
def test_the_jvm_is_told_what_the_settings_say() -> None:
    command = jvm._command(plan_settings(2, {"spark.driver.memory": "777m"}))

    assert "-Xmx777m" in command
    assert "-XX:+UseSerialGC" in command
    assert f"@{jvm.options_place()}" in command
    jars = command[command.index("-cp") + 1]
    assert "spark-core_" in jars


def test_what_is_set_for_the_jvm_alone_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)

    with jvm._environment({"PYSPARK_PYTHON": "none", "SPARK_LAUNCHER_OPTS": "-Da=b"}):
        assert os.environ["PYSPARK_PYTHON"] == "none"
        assert os.environ["SPARK_LAUNCHER_OPTS"] == "-Da=b"

    assert os.environ["PYSPARK_PYTHON"] == "python3.12"
    assert "SPARK_LAUNCHER_OPTS" not in os.environ
