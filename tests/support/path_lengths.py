"""Counts the modules and functions that one request enters between its bytes and its response's."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from brokertwin.gateway.edge_fields import Address
from brokertwin.testing.broker import KafkaBroker
from tests.support.gateways import Client
from tests.support.sources import ROOT

Body = Mapping[str, Any]

GENERATED = ("reading ", "writing ")
"""Beginnings of the names of code that the codec generates."""


class PathLength(NamedTuple):
    """What one request enters: calls, distinct functions, and the modules that have them."""

    calls: int
    functions: frozenset[str]
    modules: frozenset[str]


class _Counter:
    def __init__(self) -> None:
        self.codes: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.codes.append(frame.f_code)

    def found(self) -> PathLength:
        named = [(_module(code.co_filename), code.co_qualname) for code in self.codes]
        ours = [(module, name) for module, name in named if module]
        functions = frozenset(f"{module}:{name}" for module, name in ours)
        return PathLength(len(ours), functions, frozenset(module for module, _ in ours))


def _module(filename: str) -> str:
    """Return a module's name in this repository, or an empty text for others."""
    if filename.endswith("testing/threads.py"):
        return ""  # it installs the counter
    if filename.startswith(GENERATED):
        return "brokertwin.protocol.codec"
    path = Path(filename)
    if not path.is_relative_to(ROOT) or ".venv" in path.parts or "tests" in path.parts:
        return ""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def measured(broker: KafkaBroker, api: str, version: int, first: Body, second: Body) -> PathLength:
    """Send two requests on one connection, and count the second one."""
    host, _, port = broker.bootstrap.rpartition(":")
    counter = _Counter()
    with Client(Address(host, int(port))) as client:
        client.call(api, version, dict(first))
        broker._call(lambda: sys.setprofile(counter))
        try:
            client.call(api, version, dict(second))
        finally:
            broker._call(lambda: sys.setprofile(None))
    return counter.found()
