"""schemathesis asks what the schema allows, and what it does not."""

import subprocess
import sys
from pathlib import Path

import httpx

from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder
from tests.golden.connect.story import SOURCE

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_no_request_makes_a_500_or_an_answer_outside_of_the_schema(tmp_path: Path) -> None:
    herder = InMemoryHerder()
    herder.put_config("0", SOURCE)  # a name that generators like
    server = Server(make_app(herder))
    server.start()
    try:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
            *("--checks", ",".join(_CHECKS), "--mode", "all"),
            *("--exclude-path", "/api/live"),  # a stream, which never ends
            *(
                "--max-examples",
                "10",
                "--phases",
                "coverage,fuzzing",
                "--seed",
                "1",
                "--suppress-health-check",
                "all",
            ),
        ]
        ended = subprocess.run(
            command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
    finally:
        server.stop()
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]


def test_the_schema_is_served_and_no_page_that_loads_from_elsewhere() -> None:
    server = Server(make_app(InMemoryHerder()))
    server.start()
    try:
        schema = httpx.get(f"{server.url}/openapi.json").json()
        page = httpx.get(f"{server.url}/docs")
    finally:
        server.stop()

    assert "/connectors/{connector}/offsets" in schema["paths"]
    assert page.status_code == 404
