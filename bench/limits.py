"""What could be reached: our own client without Spark, a small mirror in Go, and the brokers alone."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from bench.clusters import Bed
from bench.pump import offer, open_cluster, open_fetcher, open_producer
from bench.systems import Running
from heliograph.embedded.places import cache_folder
from heliograph.embedded.processes import spawn
from heliograph.errors import Missing
from heliograph.wire.record_batch import find_batches, read_header

LIMITS = ("pump", "go")
_HOME = Path(__file__).parents[1]
_GO = Path(__file__).parent / "go"
_GO_BUILD_LIMIT = 300


def start_limit(system: str, bed: Bed, topic: str, remote: str, compression: str) -> Running:
    """Start one of LIMITS on a remote topic that is there already."""
    log = bed.folder / f"{remote}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    pump = [sys.executable, "-m", "bench.pump"]
    command = [str(build_go_mirror())] if system == "go" else pump
    command += [bed.source.bootstrap, bed.target.bootstrap, topic, remote, compression]
    environment = {**os.environ, "PYTHONPATH": f"{_HOME / 'src'}{os.pathsep}{_HOME}"}
    return Running(system, spawn(command, environment, log), log)


def build_go_mirror() -> Path:
    """Return the program of bench/go, built at its first use with the machine's own Go."""
    sources = [_GO / name for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    program = cache_folder() / f"go-mirror-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise Missing("the mirror in Go is left out: Go is not installed.")
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_suffix(f".{os.getpid()}")
    try:
        built = subprocess.run(
            [go, "build", "-o", str(fresh), "."],
            cwd=_GO,
            capture_output=True,
            text=True,
            timeout=_GO_BUILD_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Missing(
            f"the mirror in Go is left out: not built within {_GO_BUILD_LIMIT} s."
        ) from None
    if built.returncode:
        reason = (built.stderr.strip().splitlines() or ["go said nothing"])[-1]
        raise Missing(f"the mirror in Go is left out: it could not be built ({reason}).")
    fresh.rename(program)
    return program


def measure_brokers(bed: Bed, topic: str) -> dict[str, float]:
    """Return at which rate the brokers give and take a topic's records, nothing else being done.

    Raw batches by our own client, so next to nothing of it is the client's: reading only counts the records, and
    writing sends the first responses again and again.
    """
    with closing(open_cluster("source", bed.source.bootstrap)) as upstream:
        records, seconds = _read_all(bed, topic)
        fetcher = open_fetcher(upstream, topic)
        fetcher.ask()
        response = fetcher.take(fetcher.ready(5.0)[0])
        assert response is not None, f"{topic}: the first fetch was lost"
        remote = f"sbrokers.{topic}"
        bed.make_remote(remote, bed.source.partition_count(topic))
        with closing(open_cluster("target", bed.target.bootstrap)) as downstream:
            producer, stamper = open_producer(downstream, remote)
            each = sum(
                read_header(response.buffer, extent.start).records
                for section in response.sections
                for extent in find_batches(response.buffer, section.start, section.end)
            )
            began, sent = time.monotonic(), 0
            while sent < records or not producer.idle:
                if sent < records and producer.unstored_bytes < 2 * response.buffer.nbytes:
                    offer(response, producer, stamper)
                    sent += each
                producer.pump(1.0)
            wrote = time.monotonic() - began
    bed.forget_flow("brokers")
    return {
        "fetch_records_per_second": records / seconds,
        "produce_records_per_second": sent / wrote,
    }


def _read_all(bed: Bed, topic: str) -> tuple[int, float]:
    wanted = sum(bed.source.end_offsets(topic))
    with closing(open_cluster("source", bed.source.bootstrap)) as upstream:
        fetcher = open_fetcher(upstream, topic)
        began, positions = time.monotonic(), dict[int, int]()
        while sum(positions.values()) < wanted:
            fetcher.ask()
            for session in fetcher.ready(5.0):
                response = fetcher.take(session)
                assert response is not None, f"{topic}: a fetch was lost"
                for section in response.sections:
                    for extent in find_batches(response.buffer, section.start, section.end):
                        header = read_header(response.buffer, extent.start)
                        positions[section.slot] = header.next_offset
                    fetcher.moved(section.slot, positions.get(section.slot, 0))
        return wanted, max(time.monotonic() - began, 0.001)
