"""What each layer on the way of an event adds to its floor, in the core.

    python bench/ladder.py [--kind produce ...] [--rounds 15]

The events of `bench/core.py`, in µs of processor time for one of them:

    floor    msgspec decodes the document into its types and encodes the rows
    loop     more than that where the cell handles an API that decides nothing and answers with
             two numbers: checks of the event, time and deadlines, the request, the row
    answer   more where it gives the answer that the real handler has given: taking it apart for
             its version, writing it
    decide   the real handler, which reads the state
    records  the rest: records are applied and written, who waits is woken, items are encoded

The floor has the encoding of all rows in it, so `loop` of an event with large rows is smaller, and
may be below 0: add it to the floor. Rungs take turns in each round; figures are medians.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from core import KINDS, Bed, Kind, time_of_floor
from growth import ROUND

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.wire.generated.heartbeat import HeartbeatResponse

KEYS = {"produce": 0, "transaction": 0, "fetch": 1, "commit": 8, "heartbeat": 12}
RUNGS = ("floor", "loop", "answer", "decide", "records", "whole")
HERE = Position(0, 0)

Handler = Callable[[Any, Request], Decision]


def _with(key: int, handler: Handler, documents: list[bytes], bed: Bed) -> float:
    """µs for one document while an API has another handler."""
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


class Timed:
    """An API's handler, how long it has taken in ns, and what it has decided."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.taken = 0
        self.responses: list[Any] = []

    def __call__(self, machine: Any, request: Request) -> Decision:
        """The handler's decision, noted."""
        begun = time.process_time_ns()
        decision = self._handler(machine, request)
        self.taken += time.process_time_ns() - begun
        self.responses.append(decision.response)
        return decision


def _clock() -> float:
    """What `Timed` measures of an empty handler, in ns."""
    timed = Timed(lambda _machine, _request: Decision())
    for _ in range(ROUND):
        timed(None, None)  # type: ignore[arg-type]
    return timed.taken / ROUND


class Ladder:
    """One kind of event: the cell with its state, and an empty one for handlers that read none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = Kind(name)
        self.empty = Bed()
        self.found: dict[str, list[float]] = {rung: [] for rung in RUNGS}

    def _real(self, handler: Handler | None) -> tuple[list[bytes], list[list[Output]], float]:
        """A round of events, with what is to come before each unmeasured."""
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
        """All rungs, one after the other."""
        key, clock = KEYS[self.name], _clock()
        documents, rows, taken = self._real(None)
        floor, whole = time_of_floor(documents, rows), (taken - clock) / 1e3
        timed = Timed(BUILT[key].handle)
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
