"""Turn what the fault bench and `heliograph chaos --json` found into the table of docs/reliability.md.

python scripts/reliability.py RESULTS.jsonl ... prints it; of a fault that was tried more than once the worst counts.
"""  # noqa: INP001 - a script

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_NAMES = {"heliograph": "heliograph", "mm2": "MM2"}
_HEAD = (
    "| fault | system | runs | load | lost | repeated | out of order | recovered after | longest pause | load average |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def merge(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one result per fault and system, a fault's systems together: sums of records, the worst of times."""
    merged: dict[str, dict[str, dict[str, Any]]] = {}
    for result in results:
        systems = merged.setdefault(result["fault"], {})
        known = systems.get(result["system"])
        if known is None:
            systems[result["system"]] = {"recovered": True, "busy": 0.0, **result, "runs": 1}
            continue
        known["runs"] += 1
        for name in ("produced", "lost", "repeated", "disorder"):
            known[name] += result[name]
        for name in ("recovery", "stall"):
            known[name] = max(known[name], result[name])
        known["busy"] = max(known["busy"], result.get("busy", 0.0))
        known["recovered"] = known["recovered"] and result.get("recovered", True)
    return [systems[name] for systems in merged.values() for name in sorted(systems)]


def row(result: dict[str, Any]) -> str:
    recovery = f"{result['recovery']:.1f} s"
    if not result["recovered"]:
        recovery = f"not within {result['recovery']:.0f} s"
    cells = (
        result["fault"],
        _NAMES[result["system"]],
        result["runs"],
        f"{result['produced']:,} at {result['rate']:,}/s",
        *(f"{result[name]:,}" for name in ("lost", "repeated", "disorder")),
        recovery,
        f"{result['stall']:.1f} s",
        f"{result['busy']:.0f}" if result["busy"] else "",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def table(lines: Iterable[str]) -> str:
    """Return the Markdown table of results, one JSON object a line."""
    results = merge(json.loads(line) for line in lines if line.strip())
    return "\n".join([_HEAD, *map(row, results)])


if __name__ == "__main__":
    written = [line for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    sys.stdout.write(table(written) + "\n")
