"""Pairs requests and responses of Kroxylicious over micro-batches.

Its log has two entries for each exchange. Those that are not among the same rows go to an entity
for each connection, which writes the whole exchange to a topic that the query reads, too.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.recordings.formats.documents import Document, redacted
from brokertwin.streaming.live.reading import HalfExchange, PairsOfRows

CONNECTION = "connection"
"""The kind of these entities; its id is the session of the proxy."""

KEPT_MS = 300_000
"""How long a request waits for its response, in event time."""

HALVES_MAX = 10_000
"""Maximum number of halves of a connection."""


class PairedExchange(NamedTuple):
    """A document in the format of a capture, and its broker."""

    broker: int
    document: bytes


class Connection:
    """A connection in a micro-batch.

    Args:
        stored: from `stored`; None for a new one.
    """

    def __init__(self, stored: bytes | None) -> None:
        self._waiting = _decoder.decode(stored) if stored is not None else []

    def handle(self, halves: Iterable[HalfExchange]) -> Iterator[PairedExchange]:
        """Take halves in any order; yield the exchanges that are complete."""
        known = {(each.time, each.entry): each for each in (*self._waiting, *halves)}
        ordered = sorted(known.values(), key=_order)
        pairs = PairsOfRows()
        broker = ordered[-1].broker if ordered else -1
        for each in ordered:
            for made in pairs.take(each.wrapped):
                if isinstance(made, Document):
                    yield PairedExchange(broker, _captured(made, broker))
        list(pairs.rest())
        left = {(each.line, each.time) for each in pairs.halves}
        newest = max((each.time for each in ordered), default=0)
        kept = [each for each in ordered if (each.wrapped.line, each.time) in left]
        self._waiting = [e for e in kept if e.time >= newest - KEPT_MS][-HALVES_MAX:]

    def is_over(self, event_time: int) -> bool:
        """Whether no half waits any longer at an event time of the cluster."""
        return event_time - max((each.time for each in self._waiting), default=0) >= KEPT_MS

    def stored(self) -> bytes:
        return _encoder.encode(self._waiting)


def _order(half: HalfExchange) -> tuple[int, bool, str, int]:
    """Requests come before responses of the same ms."""
    return half.time, _RESPONSE.search(half.entry) is not None, half.file, half.line


_RESPONSE = re.compile(rb'"type"\s*:\s*"RESPONSE"')
_decoder = msgspec.msgpack.Decoder(list[HalfExchange])
_encoder = msgspec.msgpack.Encoder()


def _captured(document: Document, broker: int) -> bytes:
    named = redacted(document)
    return msgspec.structs.replace(
        named, broker=broker, connection=f"{broker}/{named.connection}"
    ).encoded()
