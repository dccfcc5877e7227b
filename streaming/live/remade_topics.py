"""Source topics that were made again, or lost records, since the checkpoint was written.

Spark goes on from the offset in its checkpoint. In a topic that was deleted and made again that
offset may lie beyond the end, and Spark reads nothing until the topic reaches it. So the offsets of
such a topic are set to its beginning before the query starts. A running query is stopped for it.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException, TopicCollection, TopicPartition

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topic_reader import consumer, first_and_end
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.live.query import LiveQuery

if TYPE_CHECKING:
    from concurrent.futures import Future

TOPIC_IDS = "brokertwin-live-topics.json"
"""File in the checkpoint with the ids of the source topics."""

Offsets = dict[str, dict[int, int]]


LOOK_S = 10.0
"""Interval at which a running query looks at the ids of its source topics."""


class TopicSpan(NamedTuple):
    """First and end offset of a partition."""

    first: int
    end: int


class Watch:
    """Notices a source topic that is made again while the query runs.

    Args:
        query: the query; its checkpoint has the ids of the topics.
    """

    def __init__(self, query: LiveQuery) -> None:
        self._admin = topics.admin_client(query.client)
        self._ids = json.loads((query.checkpoint / TOPIC_IDS).read_text())
        self._next = 0.0
        self.found = False

    def is_made_again(self, now: float) -> bool:
        """Look if it is time; a topic that is not there now is not made again yet."""
        if now >= self._next and not self.found:
            self._next = now + LOOK_S
            names = TopicCollection([*self._ids])
            described = self._admin.describe_topics(names, request_timeout=LOOK_S)
            self.found = any(self._is_another(*each) for each in described.items())
        return self.found

    def _is_another(self, name: str, described: "Future[Any]") -> bool:
        try:
            return bool(str(described.result().topic_id) != self._ids[name])
        except KafkaException:
            return False


def follow(query: LiveQuery, say: Callable[[str], None]) -> None:
    """Read topics that were made again from their beginning; report records that are lost."""
    admin = topics.admin_client(query.client)
    ids = {name: topics.topic_id(admin, name) for name in query.sources}
    path = query.checkpoint / TOPIC_IDS
    former = json.loads(path.read_text()) if path.exists() else {}
    batch = checkpoint_log.committed(query.checkpoint)
    read = checkpoint_log.end_offsets(query.checkpoint, batch)
    with closing(consumer(query.client)) as reader:
        spans = {
            (name, number): TopicSpan(*first_and_end(reader, TopicPartition(name, number)))
            for name in query.sources
            for number in read.get(name, ())
        }
    remade = {name for name in ids if name in former and former[name] != ids[name]}
    moved, said = compared(read, spans, remade)
    for number in range(batch, checkpoint_log.planned(query.checkpoint) + 1) if moved else ():
        checkpoint_log.move_offsets(query.checkpoint, number, moved)
    path.write_text(json.dumps(ids))
    for line in said:
        say(line)


def compared(
    read: Offsets, spans: Mapping[tuple[str, int], TopicSpan], remade: set[str]
) -> tuple[Offsets, list[str]]:
    """The offsets to read from instead, and what there is to say.

    Args:
        read: the end offsets of the checkpoint.
        spans: of the partitions as they are now.
        remade: topics whose ids have changed.
    """
    moved: Offsets = {}
    said = []
    for (topic, number), (first, end) in spans.items():
        offset = read[topic][number]
        if topic in remade or offset > end:
            moved.setdefault(topic, {})[number] = first
            said.append(
                f"Topic {topic} was made again: partition {number} is read from offset {first}, not"
                f" from {offset}. It has {end - first:,} records."
            )
        elif offset < first:
            said.append(
                f"{first - offset:,} records of {topic}-{number} were deleted before they were"
                f" read: offsets {offset} to {first - 1}. Raise its retention.ms, or start live"
                " earlier."
            )
    return moved, said
