"""Serves `tests.support.console`: each command in a fork of a process that has all modules.

A line of standard input is a call; a line of standard output is its exit code. Further modules
imported by a call are kept for the next ones: pandas or great-expectations take longer to import
than a command runs.
"""

import contextlib
import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from brokertwin.cli.main import COMMANDS, main

LOADED = (
    *(f"brokertwin.cli.{name.replace('-', '_')}" for name in COMMANDS),
    "brokertwin.gateway.capture.proxy",
    "brokertwin.gateway.server",
    "brokertwin.streaming.job.edge",
    "brokertwin.clients.io.batch_reader",
    "brokertwin.recordings.formats.dumps",
    "brokertwin.recordings.formats.pipeline",
    "brokertwin.recordings.replay.local",
    "brokertwin.recordings.replay.report",
    "brokertwin.streaming.job.spark_submit",
    "rich.traceback",
    "typer.rich_utils",
)
"""What commands import when they are called. It starts no thread: a fork would lose it."""

LOADED_FOR = {
    "audit": ("altair",),
    "check": ("great_expectations", "pandas"),
    "query": ("duckdb", "pandas"),
}
"""What takes long to load and only these commands import."""


def serve() -> None:
    """Answer calls until standard input ends."""
    load(LOADED)
    for line in sys.stdin:
        call = json.loads(line)
        load(LOADED_FOR.get(next(iter(call["words"]), ""), ()))
        child = os.fork()
        if not child:
            become(call)
            code = ended()
            Path(call["loaded"]).write_text("\n".join(sys.modules), encoding="utf-8")
            os._exit(code)  # an interpreter that ends in order touches all that it shares
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(FileNotFoundError):  # of a call that was killed
            load(Path(call["loaded"]).read_text(encoding="utf-8").split("\n"))
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def load(modules: Iterable[str]) -> None:
    """Import missing modules; not every entry of `sys.modules` can be imported."""
    for module in modules:
        if module not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
    gc.freeze()


def become(call: dict[str, Any]) -> None:
    """Take on the directory, the environment, the words and the files of a call."""
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    time.tzset()
    for number, file in enumerate(call["files"]):
        os.dup2(os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["brokertwin", *call["words"]]


def ended() -> int:
    """Run the command; return the exit code of an interpreter."""
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (printed like by an interpreter)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    serve()
