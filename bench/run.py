"""Catch-up of heliograph beside a real MirrorMaker 2, on the same brokers, in alternate order.

PYTHONPATH=src python -m bench.run --records 4000000 --rounds 3 --json catch-up.json
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench.catchup import Catchup, measure_catchup
from bench.clusters import open_clusters
from bench.data import CASES, PARTITIONS, fill
from bench.report import describe_machine, print_table, summarize
from bench.systems import HEAP, SYSTEMS, flow_properties
from bench.watch import count, read_content
from tests.clusters import LiveCluster


def main() -> None:
    options = _parse()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    runs: list[Catchup] = []
    failures: list[str] = []
    with open_clusters(options.logs) as (source, target, folder):
        for name in options.cases:
            case = CASES[name]
            records = case.records(options.records)
            console.print(f"{name}: writing {records:,} records to {case.topic}")
            fill(source, case, records)
            wanted = read_content(source, case.topic)
            assert count(wanted) == records, f"{case.topic} holds {count(wanted)} records"
            _show_settings(console, source, target, name)
            for round_ in range(1, options.rounds + 1):
                order = options.systems if round_ % 2 else options.systems[::-1]
                for system in order:
                    try:
                        run = measure_catchup(
                            system,
                            case,
                            round_,
                            source=source,
                            target=target,
                            folder=folder,
                            wanted=wanted,
                        )
                    except (RuntimeError, AssertionError) as exc:
                        failures.append(f"{name} round {round_} {system}: {exc}")
                        console.print(f"[red]failed[/]: {failures[-1]}", markup=True)
                        continue
                    runs.append(run)
                    _show(console, run)
            source.admin.delete_topics([case.topic])[case.topic].result(30)
    if runs:
        print_table(console, runs)
    if options.json:
        _save(options.json, options, runs, failures)
        console.print(f"saved {options.json}")
    sys.exit(1 if failures or not all(run.same_content for run in runs) else 0)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="records of a whole case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", type=_listed(list(CASES)), default=list(CASES))
    parser.add_argument("--systems", type=_listed(list(SYSTEMS)), default=list(SYSTEMS))
    parser.add_argument("--json", type=Path, help="where to save all figures")
    parser.add_argument("--logs", type=Path, help="where to keep the systems' logs and files")
    return parser.parse_args()


def _listed(allowed: list[str]) -> "type[list[str]]":
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(allowed)}")
        return names

    return parse  # type: ignore[return-value]  # argparse takes any callable


def _show_settings(console: Console, source: LiveCluster, target: LiveCluster, name: str) -> None:
    case = CASES[name]
    shown = flow_properties(source, target, "", case.topic, compression=case.compression)
    clients = " ".join(f"{k}={v}" for k, v in shown.items() if k.startswith(("s.", "t.")))
    console.print(f"{name}: MirrorMaker 2 has -Xmx{HEAP} tasks.max={shown['tasks.max']} {clients}")


def _show(console: Console, run: Catchup) -> None:
    console.print(
        f"  {run.case} {run.round} {run.system:10} {run.records_per_second:>11,.0f} rec/s "
        f"{run.records_per_cpu_second:>11,.0f} rec/CPU s  {run.seconds:6.2f} s  "
        f"late {run.late_records_per_second:>11,.0f} rec/s  CPU {run.cpu_seconds:6.2f} s ({run.cpu_seconds_from_start:.1f} from start)  "
        f"PSS {run.peak_pss_bytes >> 20} MB  first after {run.first_record_seconds:.1f} s  "
        f"{'equal' if run.same_content else f'DIFFERS: {run.records_on_target} records'}"
    )


def _save(
    file: Path, options: argparse.Namespace, runs: list[Catchup], failures: list[str]
) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"PYTHONPATH=src python -m bench.run --records {options.records} "
        f"--rounds {options.rounds} --cases {','.join(options.cases)}",
        "machine": describe_machine(),
        "partitions": PARTITIONS,
        "mm2_heap": HEAP,
        "summary": summarize(runs),
        "runs": [asdict(run) for run in runs],
        "failures": failures,
    }
    file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
