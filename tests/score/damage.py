"""Worse logs: what rotation, agents, exports and operators make of a request log."""

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from brokertwin.simulation.request_logs import LogLine

Lines = dict[int, list[LogLine]]

SHUFFLED_MS = 5_000
_MILLISECONDS = re.compile(r"(\[[\d-]+ [\d:]+),\d{3}\]")


class Damage(NamedTuple):
    """A worse log.

    Attributes:
        off_ms: by how much its times are wrong.
        has_headers: whether batch headers of Produce requests are known.
    """

    change: Callable[[Lines, random.Random], Lines]
    off_ms: float = 0
    has_headers: bool = True


def _shuffled(lines: Lines, chance: random.Random) -> Lines:
    def shuffle(of_broker: list[LogLine]) -> list[LogLine]:
        late = [(each.time + chance.uniform(0, SHUFFLED_MS), n) for n, each in enumerate(of_broker)]
        return [of_broker[n] for _, n in sorted(late)]

    return {broker: shuffle(of_broker) for broker, of_broker in lines.items()}


def _without_a_broker(lines: Lines, chance: random.Random) -> Lines:
    gone = chance.choice([*lines])
    return {broker: each for broker, each in lines.items() if broker != gone or len(lines) == 1}


def _span(lines: Lines, first: float, last: float) -> Lines:
    times = [each.time for of_broker in lines.values() for each in of_broker]
    begin, length = min(times), max(times) - min(times)
    found = {
        broker: [e for e in of_broker if begin + first * length <= e.time <= begin + last * length]
        for broker, of_broker in lines.items()
    }
    return {broker: each for broker, each in found.items() if each}


def _without_a_stretch(lines: Lines, chance: random.Random) -> Lines:
    """As `a broker is missing`, for a part of the time: a rotated file is lost."""
    broker = chance.choice([*lines])
    times = [each.time for of_broker in lines.values() for each in of_broker]
    length = (max(times) - min(times)) * chance.uniform(0.1, 0.4)
    begin = chance.uniform(min(times), max(times) - length)
    kept = [each for each in lines[broker] if not begin <= each.time <= begin + length]
    return lines | {broker: kept}


def _twice(lines: Lines, _: random.Random) -> Lines:
    return {broker: [e for e in each for _ in range(2)] for broker, each in lines.items()}


def _whole_seconds(lines: Lines, _: random.Random) -> Lines:
    return {
        broker: [e._replace(text=_MILLISECONDS.sub(r"\1]", e.text, count=1)) for e in of_broker]
        for broker, of_broker in lines.items()
    }


DAMAGES: dict[str, Damage] = {
    "whole": Damage(lambda lines, _: lines),
    "no headers": Damage(lambda lines, _: lines, has_headers=False),
    "shuffled": Damage(_shuffled),
    "a broker is missing": Damage(_without_a_broker),
    "first third is missing": Damage(lambda lines, _: _span(lines, 1 / 3, 1)),
    "last third is missing": Damage(lambda lines, _: _span(lines, 0, 2 / 3)),
    "mid-life": Damage(lambda lines, _: _span(lines, 0.4, 0.8)),
    "twice": Damage(_twice),
    "whole seconds": Damage(_whole_seconds, off_ms=1_000),
}

STRETCH = "a stretch is missing"

REAL_DAMAGES = DAMAGES | {STRETCH: Damage(_without_a_stretch)}
"""Those of real clusters, whose followers' fetches show that a stretch is missing."""
