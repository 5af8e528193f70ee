#!/usr/bin/env python3
"""Reads what pip-audit found: exits 0 if nothing is known, 1 if something is, 3 if it looked nothing up."""

import json
import sys
from pathlib import Path


def report(found: str) -> tuple[int, str]:
    """Return the exit code, and what to say."""
    try:
        packages = json.loads(found)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 3, "pip-audit did not say anything that can be read"
    # A package that was not looked up is listed too, and without a flaw.
    looked = [its for its in packages if "skip_reason" not in its]
    flaws = [
        f"{its['name']} {its['version']}: {flaw['id']}, mended in {_mended(flaw)}"
        for its in looked
        for flaw in its["vulns"]
    ]
    said = f"{len(looked)} of {len(packages)} packages looked up, {len(flaws)} known flaws"
    if flaws:
        return 1, "\n".join([said, *flaws])
    return (0 if packages and len(looked) == len(packages) else 3), said


def _mended(flaw: dict[str, list[str]]) -> str:
    return ", ".join(flaw.get("fix_versions") or ["no version yet"])


if __name__ == "__main__":
    code, said = report(Path(sys.argv[1]).read_text())
    sys.stdout.write(f"{said}\n")
    sys.exit(code)
