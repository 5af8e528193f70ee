import pytest

from heliograph.cli.spark import parse_spark
from heliograph.errors import ConfigError
from heliograph.spark.context import plan_settings
from heliograph.spark.masters import archives, driver_host, is_local, lease_place, plan_cluster

STANDALONE = {"spark.master": "spark://one:7077,two:7077", "spark.driver.host": "driver.example"}


@pytest.mark.parametrize(
    ("master", "local"),
    [
        (None, True),
        ("local", True),
        ("local[4,8]", True),
        ("local-cluster[2,1,512]", False),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://host:6443", False),
    ],
)
def test_only_tasks_in_this_process_are_local(master: str | None, local: bool) -> None:
    assert is_local({"spark.master": master} if master else {}) is local


@pytest.mark.parametrize(
    "master", ["local[2]", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"]
)
def test_a_driver_is_at_loopback_if_all_of_spark_is(master: str) -> None:
    assert driver_host({"spark.master": master}) == "127.0.0.1"


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:7077,host:7077", "yarn", "k8s://https://host"]
)
def test_a_driver_shows_itself_to_other_machines_only_where_it_is_told(master: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.driver\.host is not set"):
        driver_host({"spark.master": master})


def test_leases_are_granted_where_the_driver_is_bound() -> None:
    assert lease_place({}) == ("127.0.0.1", 0)
    assert lease_place(STANDALONE) == ("driver.example", 0)
    bound = {**STANDALONE, "spark.driver.bindAddress": "10.0.0.7"}
    assert lease_place({**bound, "spark.heliograph.lease.port": "7100"}) == ("10.0.0.7", 7100)


@pytest.mark.parametrize("port", ["seventy", "-1", "65536", ""])
def test_a_lease_port_that_is_none_is_told(port: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.heliograph\.lease\.port"):
        lease_place({"spark.heliograph.lease.port": port})


def test_a_cluster_gives_as_many_cores_as_there_are_tasks() -> None:
    assert plan_cluster(STANDALONE, 6)["spark.cores.max"] == "6"
    yarn = {**STANDALONE, "spark.master": "yarn", "spark.executor.cores": "4"}
    assert plan_cluster(yarn, 6)["spark.executor.instances"] == "2"
    assert "spark.cores.max" not in plan_cluster(yarn, 6)


def test_what_the_user_says_stands() -> None:
    given = {**STANDALONE, "spark.cores.max": "3", "spark.task.maxFailures": "1"}
    assert given.items() <= plan_settings(6, given).items()


def test_executors_import_from_the_archive_first() -> None:
    shipped = {**STANDALONE, "spark.archives": "other.zip,hdfs:///env.tar.gz#heliograph-env"}
    path = "spark.executorEnv.PYTHONPATH"
    assert archives(shipped) == [("other.zip", ""), ("hdfs:///env.tar.gz", "heliograph-env")]
    assert plan_cluster(shipped, 1)[path] == "./heliograph-env"
    assert plan_cluster({**shipped, path: "/opt/mine"}, 1)[path] == "./heliograph-env:/opt/mine"
    assert path not in plan_cluster(STANDALONE, 1)


def test_keys_of_spark_are_taken_from_the_command_line() -> None:
    given = parse_spark(["spark.master=spark://host:7077", "spark.executorEnv.A=b=c"])
    assert given == {"spark.master": "spark://host:7077", "spark.executorEnv.A": "b=c"}


@pytest.mark.parametrize("pair", ["spark.master", "master=local", "=x", ""])
def test_what_is_no_key_of_spark_is_told(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"write key=value"):
        parse_spark([pair])
