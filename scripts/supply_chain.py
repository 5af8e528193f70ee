#!/usr/bin/env python3
"""Writes what heliograph is made of: docs/sbom.json (CycloneDX) and docs/licences.md.

    python scripts/supply_chain.py            # writes both, from requirements.txt and what is installed
    python scripts/supply_chain.py --check    # says whether they are as they would be written

Licences are read from the packages' own metadata; the few that do not say it as SPDX, or that this platform
does not install, stand below.
"""

import json
import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

HOME = Path(__file__).parents[1]
SBOM = Path("docs/sbom.json")
LICENCES = Path("docs/licences.md")

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIED = {
    "MIT License": "MIT",
    "ISC License (ISCL)": "ISC",
    "Apache Software License": "Apache-2.0",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
}
_TOLD = {"colorama": "BSD-3-Clause", "py4j": "BSD-3-Clause", "pyspark": "Apache-2.0"}
_HEAD = """# Licences

Of what heliograph needs to run, and of what it carries. Written by `python scripts/supply_chain.py` from
`requirements.txt` and the packages' own metadata; a test compares. Heliograph itself is under Apache-2.0.

| package | version | licence | how it comes |
|---|---|---|---|
"""
_TAIL = """
crc32c is under the LGPL: it is a package of its own, used through its public interface and not changed, and anybody can put
another version in its place. Nothing of it is copied here.

Not listed, because heliograph neither carries nor needs it: Kafka's jars, under Apache-2.0, which `heliograph demo`, drills and
tests fetch to run brokers of their own; Java; what only tests use (`requirements-dev.txt`). The jars of Spark come inside
pyspark, with their own LICENSE and NOTICE files.
"""


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    version: str
    licence: str
    hashes: tuple[str, ...] = ()
    carried: str = ""
    """Where it lies in this repository, if it does."""

    @property
    def purl(self) -> str:
        return f"pkg:{'npm' if self.carried else 'pypi'}/{self.name}@{self.version}"


CARRIED = (Component("uplot", "1.6.32", "MIT", carried="src/heliograph/web/static/vendor"),)


def read_components(requirements: str) -> list[Component]:
    """Return the packages that are pinned, each with the hashes of all its files."""
    found = []
    starts = list(_PINNED.finditer(requirements))
    ends = [match.start() for match in starts[1:]] + [len(requirements)]
    for match, end in zip(starts, ends, strict=True):
        hashes = tuple(_HASH.findall(requirements[match.end() : end]))
        found.append(Component(match[1], match[2], licence_of(match[1]), hashes))
    return found


def licence_of(name: str) -> str:
    """Return the SPDX expression of an installed package, or what is told of it here."""
    if name in _TOLD:
        return _TOLD[name]
    try:
        its = metadata(name)
    except PackageNotFoundError:
        raise SystemExit(
            f"{name} is not installed: run this in the project's environment."
        ) from None
    if "License-Expression" in its:
        return str(its["License-Expression"])
    for classifier in its.get_all("Classifier") or []:
        known = _CLASSIFIED.get(classifier.rpartition(" :: ")[2])
        if known is not None:
            return known
    raise SystemExit(f"{name} does not say its licence: look it up and add it to _TOLD.")


def write_sbom(components: list[Component]) -> str:
    """Return a CycloneDX document that is the same for the same requirements."""
    ours = re.search(r'^version = "(.+)"', (HOME / "pyproject.toml").read_text(), re.MULTILINE)
    assert ours is not None
    root = f"pkg:generic/heliograph@{ours[1]}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "heliograph",
                "version": ours[1],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": root,
            }
        },
        "components": [_component(its) for its in components],
        "dependencies": [{"ref": root, "dependsOn": [its.purl for its in components]}],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(its: Component) -> dict[str, object]:
    is_expression = " " in its.licence
    licence = {"expression": its.licence} if is_expression else {"license": {"id": its.licence}}
    found: dict[str, object] = {
        "type": "library",
        "bom-ref": its.purl,
        "name": its.name,
        "version": its.version,
        "licenses": [licence],
        "purl": its.purl,
    }
    if its.hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in its.hashes]
    if its.carried:
        found["properties"] = [{"name": "heliograph:path", "value": its.carried}]
    return found


def write_licences(components: list[Component]) -> str:
    rows = [
        f"| {its.name} | {its.version} | {its.licence} | {_way(its)} |\n"
        for its in sorted(components, key=lambda its: its.name)
    ]
    return _HEAD + "".join(rows) + _TAIL


def _way(its: Component) -> str:
    return f"carried in `{its.carried}`" if its.carried else "installed, by hash"


def main(arguments: list[str]) -> int:
    components = [*read_components((HOME / "requirements.txt").read_text()), *CARRIED]
    wanted = {SBOM: write_sbom(components), LICENCES: write_licences(components)}
    stale = [str(path) for path, text in wanted.items() if _found(path) != text]
    if arguments == ["--check"]:
        if stale:
            sys.stderr.write(f"not as they would be written: {', '.join(stale)}. Run {__file__}.\n")
        return 1 if stale else 0
    for path, text in wanted.items():
        (HOME / path).write_text(text)
    return 0


def _found(path: Path) -> str | None:
    return (HOME / path).read_text() if (HOME / path).exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
