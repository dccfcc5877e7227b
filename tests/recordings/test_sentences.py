"""Each kind of finding and cause has sentences for all values of its fields, kept word for word."""

import random
from collections.abc import Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from brokertwin.recordings import sentences
from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.exchange import RecordedRequest
from tests.support.said import assert_said

DRAWS = 16
"""Number of values of each class."""

TIME = 1_796_000_000_000
LINES = [
    RecordedRequest(f"log:{number}", TIME + late, TIME + 5_000, broker, client, host, "c", *api)
    for number, (late, broker, client, host, api) in enumerate(
        [
            (0, 1, "shop", "10.0.0.7", ("FETCH", 12)),
            (1_500, 2, "", "", ("JOIN_GROUP", 5)),
            (3_000, 1, "billing", "10.0.0.8", ("INIT_PRODUCER_ID", 4)),
            (3_000, 2, "shop", "10.0.0.8", ("PRODUCE", 2)),
        ]
    )
]
VALUES: dict[type, Sequence[object]] = {
    RecordedRequest: LINES,
    NoneType: (None,),
    bool: (False, True),
    int: (-1, 0, 1, 2, 7, 61_000),
    float: (0.0, 1.0, 61_000.0),
    str: ("", "a", "orders-0", "billing 7"),
}


def _concrete(base: type) -> list[type]:
    children = [each for child in base.__subclasses__() for each in _concrete(child)]
    return children or [base]


KINDS = {each.__name__: each for each in [*_concrete(f.Finding), *get_args(f.Cause)]}


def _drawn(kind: Any, chance: random.Random) -> Any:
    """Draw a value of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _drawn(chance.choice(parts), chance)
    if origin is list or parts[1:] == (...,):
        return origin(_drawn(parts[0], chance) for _ in range(chance.choice((0, 1, 2, 3))))
    if origin is tuple:
        return tuple(_drawn(each, chance) for each in parts)
    if origin is dict:
        return {_drawn(parts[0], chance): _drawn(parts[1], chance) for _ in range(2)}
    if kind in VALUES:
        return chance.choice(VALUES[kind])
    if issubclass(kind, Enum):
        return chance.choice(list(kind))
    fields = get_type_hints(kind)
    return kind(**{name: _drawn(each, chance) for name, each in fields.items()})


def _sentences(value: Any) -> list[str]:
    if isinstance(value, f.Finding):
        return [sentences.said(value), sentences.cause(value), *sentences.advice(value)[:3]]
    return [sentences.because(value, LINES[0]), sentences.rebalance_cause(value)]


def test_the_same_is_said_of_each_kind() -> None:
    said = {
        kind: [
            sentence
            for draw in range(DRAWS)
            for sentence in _sentences(_drawn(KINDS[kind], random.Random(f"{kind} {draw}")))
        ]
        for kind in sorted(KINDS)
    }
    assert len(said) > 100
    assert_said("sentences", said)
