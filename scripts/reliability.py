"""Turn what the fault bench found (HELIOGRAPH_FAULTS_OUT) into the table of docs/reliability.md.

python scripts/reliability.py RESULTS.jsonl prints it; of a fault that was tried more than once the worst counts.
"""  # noqa: INP001 - a script

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_HEAD = (
    "| system | fault | runs | records | lost | repeated | out of order | recovered after | longest pause |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def merge(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one result per system and fault: sums of records, the worst of times."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        key = result["system"], result["fault"]
        known = merged.get(key)
        if known is None:
            merged[key] = {**result, "runs": 1}
            continue
        known["runs"] += 1
        for name in ("produced", "lost", "repeated", "disorder"):
            known[name] += result[name]
        for name in ("recovery", "stall"):
            known[name] = max(known[name], result[name])
    return list(merged.values())


def row(result: dict[str, Any]) -> str:
    cells = (
        result["system"],
        result["fault"],
        result["runs"],
        f"{result['produced']:,}",
        result["lost"],
        result["repeated"],
        result["disorder"],
        f"{result['recovery']:.1f} s",
        f"{result['stall']:.1f} s",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def table(lines: Iterable[str]) -> str:
    """Return the Markdown table of results, one JSON object a line."""
    results = merge(json.loads(line) for line in lines if line.strip())
    return "\n".join([_HEAD, *map(row, results)])


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1]).read_text().splitlines()) + "\n")
