"""The seeds' applications, started as their readers would start them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from heliograph.client import MirrorClient, TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.mirrors import Mirror, flow_properties, unique_alias

ROOT = Path(__file__).parents[2]
APPS = sorted(file.name for file in (ROOT / "apps").glob("*.py") if "__main__" in file.read_text())
MESSAGE = re.compile(r"^\S+@\d+ message (\d+)$", re.MULTILINE)
STARTING = 180


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **variables}


def app(
    name: str, *arguments: str, code: int = 0, within: float = 120, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; `variables` are what it finds in its environment."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "apps" / name), *arguments],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@contextmanager
def started(
    folder: Path, name: str, *arguments: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a program, and yield it and the file that it prints to."""
    log = folder / f"{name}.{unique_name()[-8:]}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "apps" / name), *arguments],
            env=environment({}),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def numbers(printed: str) -> list[int]:
    return [int(number) for number in MESSAGE.findall(printed)]


@pytest.mark.parametrize("name", APPS)
def test_every_program_tells_how_it_is_used(name: str) -> None:
    assert "usage:" in app(name, "--help").stdout


@pytest.mark.broker
def test_edgar_files_are_written_to_both_topics_row_by_row(
    source: LiveCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "input_logs"
    app("edgar_rows.py", "--folder", str(folder), "--files", "2", "--rows", "300")
    files = sorted(folder.glob("*.csv"))
    assert [file.name for file in files] == ["log20170630.csv", "log20170701.csv"]
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    rows = [line for line in lines if b",cik," not in line]
    assert len(rows) == 600
    listener = "PLAINTEXT:\\/\\/" + source.bootstrap
    for topic, partitions in (("NginxServerLogs", 15), ("TomcatServerLogs", 10)):
        name = f"{topic}-{unique_name()[-8:]}"
        printed = app(
            "edgar_producer.py",
            "--once",
            *("--partitions", str(partitions)),
            BOOTSTRAP_SERVERS=listener,
            TOPIC_NAME=name,
            INPUT_LOGS_DIR=str(folder).replace("/", "\\/"),
            ACKS="all",
            LINGER_MS="5",
        ).stdout
        assert printed.splitlines()[-1] == f"{name} 600 rows"
        assert source.partition_count(name) == partitions
        assert sorted(record.value or b"" for record in source.consume(name)) == sorted(rows)


@pytest.mark.broker
def test_a_file_is_followed_as_it_grows_and_ctrl_c_ends_it(
    source: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic(2)
    options = ["--folder", str(tmp_path), "--topic", topic, "--interval", "0.1"]
    brokers = ["--bootstrap-server", source.bootstrap]
    with started(tmp_path, "edgar_producer.py", *options, *brokers) as (process, log):
        file = tmp_path / "log.csv"
        file.write_bytes(b"number,ip,cik,rest\n1,a\n2,b\n3,ha")
        eventually(lambda: sum(source.end_offsets(topic)) == 2, 60, log.read_text)
        with file.open("ab") as more:
            more.write(b"lf\n")
        eventually(lambda: sum(source.end_offsets(topic)) == 3, 60, log.read_text)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, log.read_text()
    assert {record.value for record in source.consume(topic)} == {b"1,a", b"2,b", b"3,half"}


def test_programs_say_what_is_wrong_and_how_they_ended(tmp_path: Path) -> None:
    nowhere = ("--bootstrap-server", "127.0.0.1:1")
    absent = app("edgar_producer.py", *nowhere, "--folder", str(tmp_path / "no"), code=2)
    assert "there is no such folder" in absent.stderr
    away = app("datacenter1_consumer.py", *nowhere, "--idle", "1", code=3)
    assert "no broker answers" in away.stderr


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_second_consumer_goes_on_where_the_first_one_was(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    """Seeds 000 and 001: two pairs of programs do the same, under other names."""
    alias, topic = unique_alias(), source.create_topic()
    groups = [unique_name(), unique_name()]
    properties = {
        **flow_properties((alias, source.bootstrap), ("B", target.bootstrap), topic),
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    a, b = ("--bootstrap-server", source.bootstrap), ("--bootstrap-server", target.bootstrap)
    each = ("--topic", topic)
    app("datacenter1_producer.py", *a, *each, "--count", "15", "--interval", "0")
    app("producer.py", *a, *each, "--count", "15", "--first", "15", "--interval", "0")
    sides = ("--bootstrap-a", source.bootstrap, "--bootstrap-b", target.bootstrap, "--alias", alias)
    one = app("datacenter1_consumer.py", *a, *each, "--group", groups[0], "--count", "12")
    two = app("consumer.py", *sides, *each, "--group", groups[1], "--count", "7")
    assert numbers(one.stdout) == list(range(12))
    assert numbers(two.stdout) == list(range(7))

    with (
        Mirror(tmp_path / "mirror", properties) as mirror,
        MirrorClient(target.bootstrap) as client,
    ):
        remote = TopicPartition(f"{alias}.{topic}", 0)
        eventually(lambda: target.partition_count(remote.topic), STARTING, mirror.tail)
        eventually(lambda: sum(target.end_offsets(remote.topic)) >= 30, STARTING, mirror.tail)

        def are_told() -> bool:
            """Whether the checkpoints are where the run map, having come to its end, says."""
            runs = client.run_maps(alias).get(TopicPartition(topic, 0))
            if not runs or runs.end is None or runs.end.upstream_end < 30:
                return False
            told = [client.remote_consumer_offsets(group, alias) for group in groups]
            places = [its[remote].offset for its in told if remote in its]
            return places == [runs.downstream_of(12), runs.downstream_of(7)]

        eventually(are_told, STARTING, mirror.tail)
    source_option = ("--source", alias, "--group", groups[0], "--idle", "5")
    one = app("datacenter2_consumer.py", *b, *each, *source_option)
    failover = ("--failover_enabled", "--group", groups[1])
    two = app("consumer.py", *sides, *each, *failover, "--count", "10")
    assert numbers(one.stdout) == list(range(12, 30))
    assert numbers(two.stdout) == list(range(7, 17))
    again = app("consumer.py", *sides, *each, *failover, "--idle", "5")
    assert numbers(again.stdout) == list(range(17, 30))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_failover_consumers_share_a_topic_and_move_when_told(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    a, b, topic, group = unique_alias("A"), unique_alias("B"), source.create_topic(2), unique_name()
    properties = {
        **flow_properties((a, source.bootstrap), (b, target.bootstrap), topic),
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    options = [
        *("--topic", topic, "--group", group, "--auto-offset-reset", "earliest"),
        *("--home", f"{a}={source.bootstrap}", "--other", f"{b}={target.bootstrap}"),
    ]
    written = [b"message %d" % number for number in range(60)]
    with (
        Mirror(tmp_path / "mirror", properties) as mirror,
        started(tmp_path, "failover_consumer.py", *options) as (one, first),
        started(tmp_path, "failover_consumer.py", *options) as (two, second),
    ):

        def read() -> list[int]:
            return sorted(numbers(re.sub(r"(?m)^\w+ ", "", first.read_text() + second.read_text())))

        def tell() -> str:
            return first.read_text() + second.read_text() + mirror.tail()

        source.produce(topic, written[:40])
        eventually(lambda: read() == list(range(40)), STARTING, tell)
        with MirrorClient(target.bootstrap) as client:

            def copied() -> int:
                ends = [runs.end for runs in client.run_maps(a).values()]
                return sum(end.upstream_end for end in ends if end is not None)

            eventually(lambda: copied() == 40, STARTING, tell)
        for process in (one, two):
            process.send_signal(signal.SIGUSR1)
        eventually(
            lambda: all(
                f"moved from {a} to {b} (told)" in log.read_text() for log in (first, second)
            ),
            STARTING,
            tell,
        )
        source.produce(topic, written[40:])
        eventually(lambda: read() == list(range(60)), STARTING, tell)
        for process in (one, two):
            process.send_signal(signal.SIGTERM)
        assert [one.wait(30), two.wait(30)] == [0, 0]
