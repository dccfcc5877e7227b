"""Two applications as topologies: words are counted, two tables are joined.

Source: seed 001; `WordCountDemo`, `KTableKTableInnerJoin` in Kafka.

    word_count    text -> split -> (repartition by word) -> count, store `counts` -> word-counts
    table_join    left  -> store `left`  -+
                                          +-> "left,right" where both sides have the key -> joined
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
"""What stands between words (`\\W+` of bytes: ASCII letters, digits, underscores make words)."""

Stores = Mapping[str, KeyValueStore]


def word_count(source: str, sink: str) -> Topology:
    """How often each word has come; the newest count of a word is its newest record."""
    topology = Topology()
    topology.add_source("lines", [source])
    topology.add_processor("split", split, ["lines"])
    topology.add_repartition("words", ["split"])
    topology.add_processor("count", count, ["words"])
    topology.add_store(COUNTS, ["count"])
    topology.add_sink("word-counts", sink, ["count"])
    return topology


def split(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    """A record for each word of a line, with the word in small letters as its key."""
    words = (word for word in WORD.split((message.value or b"").lower()) if word)
    return [ProducerRecord(word, word, message.timestamp) for word in words]


def count(message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    """One more of a word, and how many that are, as text."""
    word = message.key or b""
    counted = b"%d" % (int(stores[COUNTS].get(word) or 0) + 1)
    stores[COUNTS].put(word, counted)
    return [ProducerRecord(word, counted, message.timestamp)]


def table_join(left: str, right: str, sink: str) -> Topology:
    """The newest value of each key on both sides, as `left,right`; a tombstone where one goes."""
    topology = Topology()
    for side, topic in ((LEFT, left), (RIGHT, right)):
        topology.add_source(f"{side}-records", [topic])
        topology.add_processor(f"join-{side}", partial(join, side), [f"{side}-records"])
    for side in (LEFT, RIGHT):
        topology.add_store(side, [f"join-{LEFT}", f"join-{RIGHT}"])
    topology.add_sink("joined", sink, [f"join-{LEFT}", f"join-{RIGHT}"])
    return topology


def join(side: str, message: ProducerRecord, stores: Stores) -> Iterable[ProducerRecord]:
    """A side's newest value is kept; a record without a key counts for nothing, as in Kafka."""
    if message.key is None:
        return []
    had = [stores[each].get(message.key) for each in (LEFT, RIGHT)]
    stores[side].put(message.key, message.value)
    has = [stores[each].get(message.key) for each in (LEFT, RIGHT)]
    if None not in has:
        both = b",".join(each for each in has if each is not None)
        return [ProducerRecord(message.key, both, message.timestamp)]
    return [ProducerRecord(message.key, None, message.timestamp)] if None not in had else []
