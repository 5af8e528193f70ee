"""The private parts of pyspark are where we look for them, and nobody else looks."""

import ast
import inspect
from pathlib import Path

import pyspark
from pyspark import SparkContext, daemon, java_gateway

from heliograph.spark import privates

HOME = Path(pyspark.__file__).parent
SOURCE = Path(privates.__file__).parents[1]


def test_a_context_and_its_gateway_have_the_parts_that_we_use() -> None:
    assert "_gateway" in vars(SparkContext)
    assert "self._jsc" in inspect.getsource(SparkContext)
    opened = inspect.getsource(java_gateway.launch_gateway)
    for name in (privates.PORT, privates.SECRET, privates.CONNECTION_FILE, "gateway.proc"):
        assert name in opened
    assert list(inspect.signature(java_gateway.launch_gateway).parameters) == [
        "conf",
        "popen_kwargs",
    ]


def test_the_daemon_forks_workers_by_the_module_that_we_have_imported() -> None:
    assert callable(daemon.manager)
    assert privates.WORKER.__name__ == "pyspark.worker"
    assert "worker_module" in inspect.getsource(daemon)


def test_the_server_that_we_start_is_in_spark_s_jars() -> None:
    name = privates.SERVER.replace(".", "/").encode() + b".class"
    jars = list((HOME / "jars").glob("spark-core_*.jar"))
    assert jars
    assert any(name in jar.read_bytes() for jar in jars)


def test_nobody_else_uses_private_parts_of_pyspark() -> None:
    parts = {"_gateway", "_jsc", "_jvm", "_jconf", "_jsparkSession"}
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.attr}"
        for path in SOURCE.rglob("*.py")
        if path.name != "privates.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in parts
    ]
    assert found == []
