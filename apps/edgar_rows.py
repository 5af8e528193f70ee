"""Puts CSV files of rows like those of the EDGAR log file data set into a folder, for edgar_producer.py."""

import argparse
import itertools
import os
import time
from datetime import date, timedelta
from pathlib import Path

from edgar_producer import HEADER
from running import run

from heliograph.cli.edgar import edgar_rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Write CSV files of EDGAR log rows.")
    folder = os.environ.get("INPUT_LOGS_DIR", "input_logs").replace("\\", "")
    parser.add_argument("--folder", type=Path, default=Path(folder), help=f"where to ({folder})")
    parser.add_argument("--files", type=int, default=1, help="how many files (1)")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in each (10000)")
    parser.add_argument("--interval", type=float, default=0, help="seconds between files (0)")
    parser.add_argument("--seed", type=int, default=7, help="another one, other rows (7)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = edgar_rows(options.seed)
    for number in range(options.files):
        if number:
            time.sleep(options.interval)
        day = date(2017, 6, 30) + timedelta(days=number)
        file = options.folder / f"log{day:%Y%m%d}.csv"
        half = file.with_suffix(".part")
        lines = [HEADER.encode(), *itertools.islice(rows, options.rows)]
        half.write_bytes(b"\n".join(lines) + b"\n")
        half.rename(file)
        print(f"{file} {options.rows} rows", flush=True)
    return 0


if __name__ == "__main__":
    run(main)
