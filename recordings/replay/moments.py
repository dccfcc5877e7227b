"""The moments of a history: a request arrives, or its recorded end is over."""

from collections.abc import Sequence
from typing import NamedTuple

from brokertwin.recordings.replay.recording import Exchange


class Moment(NamedTuple):
    """When an exchange, by its place in the history, arrives or ends; in ms since 1970."""

    time: int
    is_end: bool
    exchange: int


def moments_of(exchanges: Sequence[Exchange]) -> list[Moment]:
    """Arrivals and ends in order; at one time arrivals come first, so that they overlap."""
    moments = [Moment(e.time, False, index) for index, e in enumerate(exchanges)]
    moments += [Moment(e.end, True, index) for index, e in enumerate(exchanges)]
    return sorted(moments)


def previous_on_connection(exchanges: Sequence[Exchange]) -> list[int | None]:
    """For each exchange the place of the one before on its connection; None for the first."""
    latest: dict[str, int] = {}
    previous: list[int | None] = []
    for index, exchange in enumerate(exchanges):
        previous.append(latest.get(exchange.connection) if exchange.connection else None)
        latest[exchange.connection] = index
    return previous
