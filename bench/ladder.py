"""The time that each layer adds to the floor of an event in the core.

    python bench/ladder.py [--kind produce ...] [--rounds 15]

The events of `bench/core.py`, in µs of processor time per event:

    floor    msgspec decodes the document into its types and encodes the rows
    loop     added by the cell with a handler that decides nothing and returns two numbers:
             checks of the event, time and deadlines, the request, the row
    answer   added by returning the real response: adapting it to its version, encoding it
    decide   added by the real handler, which reads the state
    records  the rest: records are applied and written, waiting requests completed, items encoded

The floor includes the encoding of all rows, so `loop` of an event with large rows can be below 0.
Rungs take turns in each round; figures are medians.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from core import KINDS, BenchKind, GrowthBed, time_of_floor
from growth import ROUND

from brokertwin.state.apis.heartbeat import HeartbeatResponse
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.outputs import Output, Position

KEYS = {"produce": 0, "transaction": 0, "fetch": 1, "commit": 8, "heartbeat": 12}
RUNGS = ("floor", "loop", "answer", "decide", "records", "whole")
HERE = Position(0, 0)

Handler = Callable[[Any, Request], Decision]


def _with(key: int, handler: Handler, documents: list[bytes], bed: GrowthBed) -> float:
    """Return the µs per document while an API has another handler."""
    api = BUILT[key]
    BUILT[key] = msgspec.structs.replace(api, handle=handler)
    try:
        begun = time.process_time_ns()
        for document in documents:
            bed.cell.handle(document, HERE)
        return (time.process_time_ns() - begun) / len(documents) / 1e3
    finally:
        BUILT[key] = api


def _nothing(_machine: Any, _request: Request) -> Decision:
    return Decision(response=HeartbeatResponse())


class LadderTimes:
    """An API's handler with its times in ns and its decisions."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.taken = 0
        self.responses: list[Any] = []

    def __call__(self, machine: Any, request: Request) -> Decision:
        """Call the handler; record its decision."""
        begun = time.process_time_ns()
        decision = self._handler(machine, request)
        self.taken += time.process_time_ns() - begun
        self.responses.append(decision.response)
        return decision


def _clock() -> float:
    """Return what `LadderTimes` measures for an empty handler, in ns."""
    timed = LadderTimes(lambda _machine, _request: Decision())
    for _ in range(ROUND):
        timed(None, None)  # type: ignore[arg-type]
    return timed.taken / ROUND


class Ladder:
    """One kind of event, on its own cell and, for constant handlers, an empty one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = BenchKind(name)
        self.empty = GrowthBed()
        self.found: dict[str, list[float]] = {rung: [] for rung in RUNGS}

    def _real(self, handler: Handler | None) -> tuple[list[bytes], list[list[Output]], float]:
        """Run a round of events; their preparation is not measured."""
        steps = list(itertools.islice(self.kind.steps, ROUND))
        key, handle = KEYS[self.name], self.kind.bed.cell.handle
        api, taken, rows = BUILT[key], 0, []
        for before, document in steps:
            for each in before:
                handle(each, HERE)
            BUILT[key] = api if handler is None else msgspec.structs.replace(api, handle=handler)
            begun = time.process_time_ns()
            rows.append(handle(document, HERE))
            taken += time.process_time_ns() - begun
            BUILT[key] = api
        return [document for _, document in steps], rows, taken / ROUND

    def round(self) -> None:
        """Run all rungs in turn."""
        key, clock = KEYS[self.name], _clock()
        documents, rows, taken = self._real(None)
        floor, whole = time_of_floor(documents, rows), (taken - clock) / 1e3
        timed = LadderTimes(BUILT[key].handle)
        again, _, _ = self._real(timed)
        responses: Iterator[Any] = iter(timed.responses)
        loop = _with(key, _nothing, again, self.empty)
        answer = _with(key, lambda _m, _r: Decision(response=next(responses)), again, self.empty)
        decide = (timed.taken / ROUND - clock) / 1e3
        rungs = (floor, loop - floor, answer - loop, decide, whole - answer - decide, whole)
        for name, value in zip(RUNGS, rungs, strict=True):
            self.found[name].append(value)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    ladders = [Ladder(name) for name in given.kind]
    for _ in range(given.rounds + 1):
        for ladder in ladders:
            ladder.round()
    print(f"{'event':12}" + "".join(f"{rung:>10}" for rung in RUNGS))
    for ladder in ladders:
        medians = [statistics.median(ladder.found[rung][1:]) for rung in RUNGS]
        print(f"{ladder.name:12}" + "".join(f"{each:>10.1f}" for each in medians))


if __name__ == "__main__":
    main()
