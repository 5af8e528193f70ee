import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).parents[2]
SBOM = json.loads((HOME / "docs/sbom.json").read_text())


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOME / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials_and_the_licences_are_as_they_would_be_written() -> None:
    command = [sys.executable, str(HOME / "scripts/supply_chain.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_bill_of_materials_holds_every_pin_with_its_hashes() -> None:
    requirements = (HOME / "requirements.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", requirements, re.MULTILINE))
    listed = {its["name"]: its for its in SBOM["components"] if "hashes" in its}
    assert {name: its["version"] for name, its in listed.items()} == pins
    hashes = [digest["content"] for its in listed.values() for digest in its["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", requirements))
    assert all(its["licenses"] for its in SBOM["components"])


def test_what_is_carried_is_listed_with_its_licence() -> None:
    vendor = HOME / "src/heliograph/web/static/vendor"
    (carried,) = [its for its in SBOM["components"] if "properties" in its]
    assert (vendor / f"{carried['name']}-{carried['version']}.js").exists()
    assert "MIT License" in (vendor / f"{carried['name']}-license.txt").read_text()
    assert {path.name.split("-")[0] for path in vendor.iterdir()} == {carried["name"]}


def test_no_place_to_install_from_is_named() -> None:
    for path in ("docs/sbom.json", "docs/licences.md", "requirements-audit.txt"):
        assert "://" not in (HOME / path).read_text(), path


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ('{"dependencies":[{"name":"a","version":"1","vulns":[]}]}', 0),
        ('{"dependencies":[{"name":"a","version":"1","vulns":[{"id":"X","fix_versions":[]}]}]}', 1),
        ('{"dependencies":[{"name":"a","skip_reason":"not found"}]}', 3),
        ('{"dependencies":[]}', 3),
        ("<html>", 3),
    ],
)
def test_an_audit_that_looked_nothing_up_does_not_count_as_clean(found: str, code: int) -> None:
    assert _script("audit_report").report(found)[0] == code
