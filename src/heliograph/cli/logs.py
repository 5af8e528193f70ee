"""Logs as an operator reads them: time, level, sentence, on standard error."""

import logging
import os


def set_up_logs(level: str = "INFO") -> None:
    """Log to standard error; HELIOGRAPH_LOG_LEVEL changes how much."""
    logging.basicConfig(
        level=os.environ.get("HELIOGRAPH_LOG_LEVEL", level).upper(),
        format="%(asctime)s %(levelname)s %(message)s",
    )
    for noisy in ("py4j", "kafka"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
