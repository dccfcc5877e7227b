"""Two example applications: word count and a table join.

Source: seed 001; `WordCountDemo`, `KTableKTableInnerJoin` in Kafka.

    word_count    text -> split -> (repartition by word) -> count, store `counts` -> word-counts
    table_join    left  -> store `left`  -+
                                          +-> "left,right" if both sides have the key -> joined
                  right -> store `right` -+
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial

from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.topology import Topology

COUNTS = "counts"
LEFT, RIGHT = "left", "right"
WORD = re.compile(rb"\W+")
r"""Word separators (`\\W+` of bytes: ASCII letters, digits, underscores make words)."""

Stores = Mapping[str, KeyValueStore]


def word_count(source: str, sink: str) -> Topology:
    """Count words; the newest record of a word has its count."""
    topology = Topology()
    topology.add_source("lines", [source])
    topology.add_processor("split", split, ["lines"])
    topology.add_repartition("words", ["split"])
    topology.add_processor("count", count, ["words"])
    topology.add_store(COUNTS, ["count"])
    topology.add_sink("word-counts", sink, ["count"])
    return topology


def split(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    words = (word for word in WORD.split((message.value or b"").lower()) if word)
    return [ProducerRecord(word, word, message.timestamp) for word in words]


def count(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    """Increment the count of a word; the value is text."""
    word = message.key or b""
    counted = b"%d" % (int(stores[COUNTS].get(word) or 0) + 1)
    stores[COUNTS].put(word, counted)
    return [ProducerRecord(word, counted, message.timestamp)]


def table_join(left: str, right: str, sink: str) -> Topology:
    """Join the newest values of each key; a tombstone if one is deleted."""
    topology = Topology()
    for side, topic in ((LEFT, left), (RIGHT, right)):
        topology.add_source(f"{side}-records", [topic])
        topology.add_processor(f"join-{side}", partial(join, side), [f"{side}-records"])
    for side in (LEFT, RIGHT):
        topology.add_store(side, [f"join-{LEFT}", f"join-{RIGHT}"])
    topology.add_sink("joined", sink, [f"join-{LEFT}", f"join-{RIGHT}"])
    return topology


def join(side: str, message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    """Store the newest value; records without a key are dropped, as in Kafka."""
    if message.key is None:
        return []
    had = [stores[each].get(message.key) for each in (LEFT, RIGHT)]
    stores[side].put(message.key, message.value)
    has = [stores[each].get(message.key) for each in (LEFT, RIGHT)]
    if None not in has:
        both = b",".join(each for each in has if each is not None)
        return [ProducerRecord(message.key, both, message.timestamp)]
    return [ProducerRecord(message.key, None, message.timestamp)] if None not in had else []
