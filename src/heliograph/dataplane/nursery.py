"""One process with all modules imported, of which all of Spark's Pythons on this machine are forks.

Spark starts eight Python processes for a flow, each of which would import the same things again: 0.3 s of CPU and
30 MB. Here they are forked in a millisecond and share the pages. What Spark starts itself is `hatch.py`, which
sends its arguments, environment and standard streams through a socket, and ends when its fork has ended; if Spark
ends it first, the fork is ended.

    message   hatch to nursery: the number of arguments, the arguments, the environment; separated by NUL bytes,
              with the descriptors 0, 1 and 2 beside it
    answers   nursery to hatch: that it has forked, and later the status that the fork ended with, as text; nothing if
              it cannot
"""

import gc
import os
import runpy
import selectors
import signal
import socket
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pyspark import daemon, worker
from pyspark.sql.streaming import python_streaming_source_runner
from pyspark.sql.worker import (
    create_data_source,
    plan_data_source_read,
    python_streaming_sink_runner,
    write_into_data_source,
)

from heliograph.dataplane import placing_writer, reader, transactional_writer, writer

PRELOADED = (
    *(daemon, worker, python_streaming_source_runner, python_streaming_sink_runner),
    *(create_data_source, plan_data_source_read, write_into_data_source),
    *(reader, writer, placing_writer, transactional_writer),
)
_LONGEST = 1 << 20
_STANDARD = (0, 1, 2)
_NAME_SIZE = 15
_FORKED = b"forked"
_KILLED = 128  # and the signal's number, as a shell says it


@dataclass(frozen=True, slots=True)
class Order:
    """What a fork shall run: a module, as `python -m` would."""

    module: str
    arguments: list[str]
    environment: dict[str, str]


def read_order(message: bytes) -> Order | None:
    """Return what a hatch asks for; None if it is nothing that `-m` names."""
    count, *fields = os.fsdecode(message).split("\0")
    if not count.isdecimal():
        return None
    arguments, environment = fields[: int(count)], fields[int(count) :]
    if len(arguments) < 2 or arguments[0] != "-m":
        return None
    pairs = (field.partition("=") for field in environment)
    return Order(arguments[1], arguments[2:], {key: value for key, _, value in pairs})


class Nursery:
    """Forks for hatches until its standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._events = selectors.DefaultSelector()
        self._listener = listener
        self._forks: dict[int, tuple[int, socket.socket]] = {}  # pid to its handle and its hatch
        self._events.register(listener, selectors.EVENT_READ)
        self._events.register(0, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self._events.select():
                if key.fd == 0:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._forks:
                    handle, line = self._forks[key.data]
                    self._bury(key.data) if key.fd == handle else self._end(key.data, line)

    def _accept(self) -> None:
        """Serve a hatch; one that cannot be served finds its line closed, and helps itself."""
        descriptors: list[int] = []
        try:
            line, _ = self._listener.accept()
        except OSError:
            return
        try:
            message, descriptors, _, _ = socket.recv_fds(line, _LONGEST, len(_STANDARD))
            order = read_order(message) if len(descriptors) == len(_STANDARD) else None
            if order is None:
                line.close()
            else:
                self._fork(order, descriptors, line)
        except OSError as exc:
            sys.stderr.write(f"the nursery cannot fork: {exc}\n")
            line.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork(self, order: Order, descriptors: list[int], line: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self._leave()
                line.close()
                _become(order, descriptors)
            finally:
                os._exit(1)
        handle = os.pidfd_open(pid)
        self._forks[pid] = handle, line
        self._events.register(handle, selectors.EVENT_READ, pid)
        self._events.register(line, selectors.EVENT_READ, pid)
        line.send(_FORKED)

    def _leave(self) -> None:
        """Close in a fork what belongs to the nursery."""
        self._events.close()
        self._listener.close()
        for handle, line in self._forks.values():
            os.close(handle)
            line.close()

    def _end(self, pid: int, line: socket.socket) -> None:
        """End the fork of a hatch that Spark has ended."""
        self._events.unregister(line)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def _bury(self, pid: int) -> None:
        """Tell a hatch how its fork has ended."""
        handle, line = self._forks.pop(pid)
        _, waited = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(waited)
        with suppress(OSError):
            line.send(b"%d" % (status if status >= 0 else _KILLED - status))
        with suppress(KeyError):
            self._events.unregister(line)
        self._events.unregister(handle)
        os.close(handle)
        line.close()


def _become(order: Order, descriptors: list[int]) -> NoReturn:
    """Be what `python -m` would have been."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv = [order.module, *order.arguments]
    # The name that `ps` and `top` show: a part of Spark's module for it.
    what = order.arguments[0] if order.arguments else order.module
    with suppress(OSError):
        Path("/proc/self/comm").write_text(what.rpartition(".")[2][:_NAME_SIZE])
    status = 0
    try:
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module is imported already
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)
    except SystemExit as exc:
        status = 0 if exc.code is None else exc.code if isinstance(exc.code, int) else 1
    except BaseException:  # noqa: BLE001 - the edge of a process
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def main(listener: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    Nursery(socket.socket(fileno=listener)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
