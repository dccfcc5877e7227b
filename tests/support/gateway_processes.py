"""`brokertwin gateway` in a separate process."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from brokertwin.gateway.edge_fields import Address
from tests.support.console import command
from tests.support.patience import PATIENCE_S

TIMEOUT_S = PATIENCE_S


@contextmanager
def gateway(
    *words: str, listen: str = "127.0.0.1:0"
) -> Iterator[tuple["subprocess.Popen[str]", dict[int, Address]]]:
    """The process, and where its brokers are reached."""
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(
        command("gateway", "--listen", listen, *words),
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process, _addresses(process, words)
        finally:
            process.kill()
            process.wait(TIMEOUT_S)


def _addresses(process: "subprocess.Popen[str]", words: tuple[str, ...]) -> dict[int, Address]:
    count = int(words[words.index("--brokers") + 1]) if "--brokers" in words else 1
    addresses: dict[int, Address] = {}
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"broker (\d+) at (\S+):(\d+)", line):
            addresses[int(match[1])] = Address(match[2], int(match[3]))
        if len(addresses) == count:
            return addresses
    raise AssertionError(f"ended with {process.wait(TIMEOUT_S)}")
