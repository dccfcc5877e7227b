"""`brokertwin`, called as a user calls it."""

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.sources import ROOT

PROGRAM = "from brokertwin.cli.main import main; main()"


def command(*words: object) -> list[str]:
    """How to start a command in a separate interpreter, to stop or kill it."""
    return [sys.executable, "-c", PROGRAM, *map(str, words)]


def called(
    *words: object, cwd: Path | None = None, given: bytes = b"", **environment: object
) -> "subprocess.CompletedProcess[bytes]":
    """Call a command and wait for its end.

    It runs in a fork of a process that has already imported the modules of the commands.

    Args:
        words: arguments after `brokertwin`.
        cwd: its directory; where the tests run, if None.
        given: its standard input.
        environment: variables in addition to those of the tests and `COLUMNS=200`.
    """
    with TemporaryDirectory() as directory:
        files = [Path(directory, name) for name in ("in", "out", "err")]
        for file, content in zip(files, (given, b"", b""), strict=True):
            file.write_bytes(content)
        own = {key: str(one) for key, one in environment.items()}
        call = {
            "words": list(map(str, words)),
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, "COLUMNS": "200", **own},
            "files": list(map(str, files)),
            "loaded": str(Path(directory, "loaded")),
        }
        line = json.dumps(call)
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(line + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, errors = (file.read_bytes() for file in files[1:])
    return subprocess.CompletedProcess(call["words"], code, out, errors)


def brokertwin(
    *words: object, cwd: Path | None = None, text: str = "", **environment: object
) -> "subprocess.CompletedProcess[str]":
    done = called(*words, cwd=cwd, given=text.encode(), **environment)
    output = (done.stdout.decode(), done.stderr.decode())
    return subprocess.CompletedProcess(done.args, done.returncode, *output)


@cache
def _server() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.forks"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
    atexit.register(server.communicate)
    return server
