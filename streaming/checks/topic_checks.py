"""Flat rows of a running job's topics, as they arrive.

They are read by a separate consumer. It remembers positions of logs and producers, and the requests
of the last ten minutes. A response can thus be matched to its request, and a batch to its
predecessor.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

from confluent_kafka import TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    TopicRow,
    consumer,
    first_and_end,
    offsets_at,
    partitions_of,
    read_all,
)
from brokertwin.kafka_io.topics import full_name
from brokertwin.state.core import outputs
from brokertwin.streaming.checks import checked_rows
from brokertwin.streaming.checks.checked_rows import Flat
from brokertwin.streaming.checks.suites import OVERDUE_MS

KINDS = ("requests", "responses", "records")
TOPICS = {
    "requests": (outputs.RESPONSES, outputs.REQUESTS),
    "responses": (outputs.RESPONSES, outputs.REQUESTS),
    "records": (outputs.RECORDS,),
}
"""Topics to read for each kind; responses come before requests.

This way the request of each response has been written.
"""

REMEMBERED_MAX = 100_000
"""Maximum number of remembered requests and of rows for repeat detection.

The oldest are dropped, as are requests `OVERDUE_MS` older than the newest response.
"""

Read = Callable[[str, Mapping[int, int]], Iterable[TopicRow]]
"""Yields the rows of a topic, named without the prefix, from given offsets."""


class TopicRows:
    """New rows of some kinds.

    Args:
        kinds: of `KINDS`.
        read: reads a topic from given offsets.
        begins: start offsets by topic.
        before: earlier start offsets of requests, whose responses may still come.
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
        self._known_requests: OrderedDict[str, Flat] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._logs = checked_rows.RowLogs()
        self._newest = 0

    def look(self) -> dict[str, list[Flat]]:
        """Return the new rows by kind, with the columns of `streaming/checks/suites.py`.

        A request is returned when it arrives, gets a response, or becomes overdue.
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

    def _new(self, topic: str) -> list[TopicRow]:
        positions = self._positions[topic]
        rows = list(self._read(topic, positions))
        for row in rows:
            positions[row.partition] = max(positions.get(row.partition, 0), row.offset + 1)
        return [row for row in rows if not self._is_repeat(topic, row)]

    def _is_repeat(self, topic: str, row: TopicRow) -> bool:
        """Whether id and value were seen: Spark's sink is at-least-once."""
        key = (topic, row.id, hash(row.value))
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > REMEMBERED_MAX:
            self._seen.popitem(last=False)
        return False

    def _requests(self, rows: list[TopicRow]) -> list[Flat]:
        """The new requests; those before the first look are only remembered."""
        found = checked_rows.requests(rows, ())
        self._known_requests.update((str(each["id"]), each) for each in found)
        return [each for each in found if each["offset"] >= self._first.get(each["partition"], 0)]

    def _responses(self, rows: list[TopicRow], requests: list[Flat]) -> list[Flat]:
        """The new responses; adds their requests to `requests`."""
        found = checked_rows.responses(rows, ())
        listed = {id(each) for each in requests}
        for response in found:
            self._newest = max(self._newest, response["timestamp"])
            request = self._known_requests.get(str(response["id"]))
            if request is not None:
                response["requestTimestamp"] = request["timestamp"]
                request["responses"] += 1
                request["pendingMs"] = None
                if id(request) not in listed:
                    requests.append(request)
                    listed.add(id(request))
        return found

    def _overdue(self) -> list[Flat]:
        """The requests that became overdue; returned once."""
        overdue = []
        for each in self._known_requests.values():
            pending_ms = self._newest - each["timestamp"]
            if pending_ms > OVERDUE_MS and each["apiKey"] is not None and not each["responses"]:
                overdue.append({**each, "pendingMs": pending_ms})
        return overdue

    def _forget(self) -> None:
        old = [
            name
            for name, each in self._known_requests.items()
            if self._newest - each["timestamp"] > OVERDUE_MS
        ]
        for name in old:
            del self._known_requests[name]
        while len(self._known_requests) > REMEMBERED_MAX:
            self._known_requests.popitem(last=False)


def rows_from_now(client: ClientProperties, prefix: str, kinds: Collection[str]) -> TopicRows:
    """Return the rows that arrive from now on.

    Raises:
        UserError: a topic does not exist, or Kafka does not respond.
    """

    def read(topic: str, first: Mapping[int, int]) -> Iterable[TopicRow]:
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
