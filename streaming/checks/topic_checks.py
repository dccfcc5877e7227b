"""What comes to a job's topics while it runs, as the data checks see it: each row once, in turn.

It is read with a consumer of its own, beside the query. From one look to the next it remembers
where logs and producers are, and what was asked in the last ten minutes; so an answer finds its
request, and a batch the one before it, however far apart they came.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

from confluent_kafka import TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    Row,
    consumer,
    first_and_end,
    offsets_at,
    partitions_of,
    read_all,
)
from brokertwin.kafka_io.topics import full_name
from brokertwin.state.core import outputs
from brokertwin.streaming.checks import checked_rows
from brokertwin.streaming.checks.checked_rows import OVERDUE_MS, Flat

KINDS = ("requests", "responses", "records")
TOPICS = {
    "requests": (outputs.RESPONSES, outputs.REQUESTS),
    "responses": (outputs.RESPONSES, outputs.REQUESTS),
    "records": (outputs.RECORDS,),
}
"""What has to be read for each, in order: what an answer answers is there when it is."""

REMEMBERED_MAX = 100_000
"""Requests that are remembered, and rows by which repeats are known; the oldest are forgotten.

So are requests that came `OVERDUE_MS` before the newest answer.
"""

Read = Callable[[str, Mapping[int, int]], Iterable[Row]]
"""Gives the rows of a topic, named without the prefix, from these offsets on."""


class TopicRows:
    """The rows of some kinds, as they come.

    Args:
        kinds: of `KINDS`.
        read: reads a topic from offsets on.
        begins: topic to the offsets from which its rows are looked at.
        before: of the requests, the offsets from which they are known: answers to these may come.
    """

    def __init__(
        self,
        kinds: Collection[str],
        read: Read,
        begins: Mapping[str, Mapping[int, int]],
        before: Mapping[int, int],
    ) -> None:
        self._kinds, self._read = kinds, read
        self._first = dict(begins.get(outputs.REQUESTS, {}))
        self._positions = {topic: dict(offsets) for topic, offsets in begins.items()}
        self._positions[outputs.REQUESTS] = dict(before)
        self._asked: OrderedDict[str, Flat] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._logs = checked_rows.Logs()
        self._newest = 0

    def look(self) -> dict[str, list[Flat]]:
        """What has come since the last look, by kind: columns as of `sinks/suites.py`.

        A request is there when it comes, when it is answered, and when it is overdue.
        """
        rows = {
            topic: self._new(topic)
            for topic in dict.fromkeys(topic for kind in self._kinds for topic in TOPICS[kind])
        }
        found: dict[str, list[Flat]] = {}
        if outputs.REQUESTS in rows:
            found["requests"] = requests = self._requests(rows[outputs.REQUESTS])
            found["responses"] = self._responses(rows[outputs.RESPONSES], requests)
            requests += self._overdue()
            self._forget()
        if outputs.RECORDS in rows:
            found["records"] = checked_rows.records(rows[outputs.RECORDS], self._logs)
        return {kind: found[kind] for kind in self._kinds}

    def _new(self, topic: str) -> list[Row]:
        positions = self._positions[topic]
        rows = list(self._read(topic, positions))
        for row in rows:
            positions[row.partition] = max(positions.get(row.partition, 0), row.offset + 1)
        return [row for row in rows if not self._is_repeat(topic, row)]

    def _is_repeat(self, topic: str, row: Row) -> bool:
        """Whether it was there before, id and value: Spark's sink writes at least once."""
        key = (topic, row.id, hash(row.value))
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > REMEMBERED_MAX:
            self._seen.popitem(last=False)
        return False

    def _requests(self, rows: list[Row]) -> list[Flat]:
        """The new ones; those from before the first look are known, and not looked at."""
        found = checked_rows.requests(rows, ())
        self._asked.update((str(each["id"]), each) for each in found)
        return [each for each in found if each["offset"] >= self._first.get(each["partition"], 0)]

    def _responses(self, rows: list[Row], requests: list[Flat]) -> list[Flat]:
        """The new ones; what they answer is looked at again."""
        found = checked_rows.responses(rows, ())
        there = {id(each) for each in requests}
        for answer in found:
            self._newest = max(self._newest, answer["timestamp"])
            asked = self._asked.get(str(answer["id"]))
            answer["requests"] = int(asked is not None)
            if asked is not None:
                asked["answers"] += 1
                if id(asked) not in there:
                    requests.append(asked)
                    there.add(id(asked))
        return found

    def _overdue(self) -> list[Flat]:
        """What has become overdue; it is told once."""
        found = []
        for each in self._asked.values():
            is_old = self._newest - each["timestamp"] > OVERDUE_MS
            if is_old and each["apiKey"] is not None and not each["answers"]:
                found.append({**each, "isOverdue": True})
        return found

    def _forget(self) -> None:
        old = [
            name
            for name, each in self._asked.items()
            if self._newest - each["timestamp"] > OVERDUE_MS
        ]
        for name in old:
            del self._asked[name]
        while len(self._asked) > REMEMBERED_MAX:
            self._asked.popitem(last=False)


def rows_from_now(client: ClientProperties, prefix: str, kinds: Collection[str]) -> TopicRows:
    """The rows that come to a job's topics from now on.

    Raises:
        UserError: a topic is not there, or Kafka does not answer.
    """

    def read(topic: str, first: Mapping[int, int]) -> Iterable[Row]:
        return read_all(client, full_name(prefix, topic), first)

    begins, before = {}, {}
    with closing(consumer(client)) as reader:
        for topic in dict.fromkeys(topic for kind in kinds for topic in TOPICS[kind]):
            name = full_name(prefix, topic)
            partitions = range(partitions_of(client, name))
            begins[topic] = {
                n: first_and_end(reader, TopicPartition(name, n))[1] for n in partitions
            }
        if outputs.REQUESTS in begins:
            since_ms = time.time_ns() // 1_000_000 - OVERDUE_MS
            name = full_name(prefix, outputs.REQUESTS)
            before = offsets_at(reader, name, len(begins[outputs.REQUESTS]), since_ms)
    ends = begins.get(outputs.REQUESTS, {})
    before = {n: before.get(n, end) for n, end in ends.items()}
    return TopicRows(kinds, read, begins, before)
