"""Counts the modules and functions that one request enters between its bytes and its response's."""

import sys
from collections.abc import Callable, Mapping
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


def errors_in(body: Any) -> list[int]:
    """Return the error codes of a response, at any depth."""
    if isinstance(body, list):
        return [code for each in body for code in errors_in(each)]
    if not isinstance(body, dict):
        return []
    below = [code for each in body.values() for code in errors_in(each)]
    return [code for code in [body.get("errorCode", 0)] if code] + below


def measured(
    broker: KafkaBroker, api: str, version: int, make: Callable[[int], Body]
) -> PathLength:
    """Send two requests on one connection, and count the second one, which must succeed.

    `make` gets 0, then the member epoch of the first response, or 1.
    """
    host, _, port = broker.bootstrap.rpartition(":")
    counter = _Counter()
    with Client(Address(host, int(port))) as client:
        first = client.call(api, version, dict(make(0)))
        second = dict(make(first.get("memberEpoch", 1)))
        broker._call(lambda: sys.setprofile(counter))
        try:
            response = client.call(api, version, second)
        finally:
            broker._call(lambda: sys.setprofile(None))
    assert not errors_in(response), response
    return counter.found()
