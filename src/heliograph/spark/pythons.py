"""The command that Spark starts Python with, here and on executors.

Spark puts its own archives of pyspark first on PYTHONPATH; reading modules from them costs seconds, so the command
leaves them out where pyspark is installed. On a cluster it is a name, such as `python3.11`, which driver and
executors look up in their own PATH.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from heliograph.spark.masters import PYTHON, is_local, python_name

_QUICK_PYTHON = """\
#!/bin/sh
kept=
IFS=:
for path in $PYTHONPATH; do
    case $path in *.zip) ;; *) kept="$kept${{kept:+:}}$path" ;; esac
done
unset IFS
PYTHONPATH=$kept exec {python} "$@"
"""


def python_command(settings: Mapping[str, str], scratch: Path) -> str:
    """Return the command, which is created in `scratch` unless one is configured."""
    given = settings.get(PYTHON) or os.environ.get("PYSPARK_PYTHON")
    if given is not None:
        return given
    quick = scratch / "bin" / python_name()
    quick.parent.mkdir(exist_ok=True)
    quick.write_text(_QUICK_PYTHON.format(python=shlex.quote(sys.executable)))
    quick.chmod(0o700)
    if is_local(settings):
        return str(quick)
    os.environ["PATH"] = os.pathsep.join((str(quick.parent), os.environ.get("PATH", os.defpath)))
    return python_name()
