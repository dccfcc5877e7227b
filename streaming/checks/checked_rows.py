"""Flat rows of a job's topics for data checks.

Repeats (same id and value, because Spark's sink is at-least-once) are dropped first, as by every
reader. A row with a known id and another value stays and is a finding. `suites.py` lists the
columns, and docs/checks.md explains them.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.protocol.rows import kind_of
from brokertwin.state.core import outputs
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.groups import group_rows, offset_records

SEQUENCES = 2**31
NO_SEQUENCE = -1
PAIRS = (
    *("baseOffset", "expectedOffset", "baseSequence", "expectedSequence"),
    *("committedOffset", "committedBefore", "highWatermark", "highWatermarkBefore"),
    "idGivenBefore",
)
"""Columns with a record's values and those that earlier records lead to; None: not known."""

Flat = dict[str, Any]


def distinct(rows: Iterable[TopicRow]) -> Iterator[TopicRow]:
    """Yield rows without repeats of the same id, key and value."""
    seen: set[tuple[str, bytes | None, bytes | None]] = set()
    for row in rows:
        if (row.id, row.key, row.value) not in seen:
            seen.add((row.id, row.key, row.value))
            yield row


def requests(rows: Iterable[TopicRow], responses: Iterable[TopicRow]) -> list[Flat]:
    """Flatten events, each with its number of responses, and how long it has had none."""
    responses_by_id: Counter[str] = Counter()
    newest = 0
    for response in distinct(responses):
        responses_by_id[response.id] += 1
        newest = max(newest, response.timestamp)
    found = []
    for row in distinct(rows):
        event = _document(row)
        header = event.get("requestHeader") or {}
        is_request = "requestHeader" in event
        number = responses_by_id[str(event.get("id"))]
        found.append(
            {
                "id": event.get("id"),
                "partition": row.partition,
                "offset": row.offset,
                "timestamp": row.timestamp,
                "cell": row.key.decode("utf-8", "replace") if row.key else None,
                "cluster": event.get("cluster"),
                "broker": event.get("broker"),
                "kind": event.get("kind", "request"),
                "apiKey": header.get("requestApiKey"),
                "apiVersion": header.get("requestApiVersion"),
                "clientId": header.get("clientId"),
                "responses": number,
                "pendingMs": max(newest - row.timestamp, 0) if is_request and not number else None,
            }
        )
    return found


def responses(rows: Iterable[TopicRow], requests: Iterable[TopicRow]) -> list[Flat]:
    """Flatten responses, each with the time of its request; None: there is none.

    Leaves out rows about broker changes.
    """
    sent = {str(_document(row).get("id")): row.timestamp for row in requests}
    found = []
    for row in distinct(rows):
        if row.id.startswith(outputs.BROKER_CHANGES):
            continue
        response = _document(row)
        header = response.get("requestHeader") or {}
        error = response.get("error")
        found.append(
            {
                "id": row.id,
                "partition": row.partition,
                "offset": row.offset,
                "timestamp": row.timestamp,
                "cluster": response.get("cluster"),
                "broker": response.get("broker"),
                "apiKey": header.get("requestApiKey"),
                "clientId": header.get("clientId"),
                "responseTime": response.get("responseTime"),
                "error": None if error is None else str(error),
                "requestTimestamp": sent.get(row.id),
            }
        )
    return found


class GivenIds:
    """Producer ids that have been given, as disjoint spans in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def give(self, first: int, end: int) -> int | None:
        """Give the ids from `first` to `end` (exclusive); return one that was given before."""
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        met = list(zip(self._firsts[low:high], self._ends[low:high], strict=True))
        again = (max(first, begun) for begun, known in met if max(first, begun) < min(end, known))
        self._firsts[low:high] = [min([first, *(begun for begun, _ in met)])]
        self._ends[low:high] = [max([end, *(known for _, known in met)])]
        return next(again, None)


class RowLogs:
    """Expected next values of logs, producers and commits, and the given producer ids."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Any, ...], int] = {}
        self._high_watermarks: dict[tuple[Any, ...], int] = {}
        self._sequences: dict[tuple[Any, ...], int] = {}
        self._generations: dict[tuple[Any, ...], tuple[int, bool]] = {}
        self._commits: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._given: dict[tuple[str, str], GivenIds] = defaultdict(GivenIds)

    def look(self, cell: str | None, machine: Any, record: Flat) -> dict[str, int | None]:
        """Return the columns `PAIRS` of a record."""
        pairs: dict[str, int | None] = dict.fromkeys(PAIRS)
        kind = record.get("type")
        log = (cell, machine, record.get("topicId"), record.get("partition"))
        if kind == "BatchAppended":
            pairs |= self._append(log, record["batch"])
        elif kind == "GroupRecord":
            key, known = record["key"], record["value"]
            if key["type"] == "GroupMetadataKey" and known is not None:
                group = (cell, machine, key["group"])
                self._generations[group] = (known["generation"], bool(known["members"]))
        elif kind == "OffsetCommitted":
            pairs |= self._commit((cell, machine), record)
        elif kind == "HighWatermarkMoved":
            pairs["highWatermarkBefore"] = self._high_watermarks.get(log)
            pairs["highWatermark"] = self._high_watermarks[log] = record["highWatermark"]
        elif kind in ("ProducerIdIssued", "ProducerIdBlockReceived"):
            first = record["producerId"] if kind == "ProducerIdIssued" else record["first"]
            given = self._given[cluster_of(cell or ""), kind]
            pairs["idGivenBefore"] = given.give(first, first + record.get("size", 1))
        else:
            self._forget(log, record)
        return pairs

    def _append(self, log: tuple[Any, ...], batch: Flat) -> dict[str, int | None]:
        count = batch["lastOffsetDelta"] + 1
        pairs = {"baseOffset": batch["baseOffset"], "expectedOffset": self._ends.get(log)}
        self._ends[log] = batch["baseOffset"] + count
        sequence = batch["baseSequence"]
        if sequence == NO_SEQUENCE:
            return pairs
        producer = (*log, batch["producerId"], batch["producerEpoch"])
        expected = self._sequences.get(producer)
        self._sequences[producer] = (sequence + count) % SEQUENCES
        return {**pairs, "baseSequence": sequence, "expectedSequence": expected}

    def _commit(self, machine: tuple[Any, ...], record: Flat) -> dict[str, int | None]:
        group = (*machine, record["groupId"])
        generation, has_members = self._generations.get(group, (-1, False))
        place = (*group, record["topic"], record["partition"])
        before = self._commits.get(place)
        self._commits[place] = (generation, record["offset"])
        known = None
        if before is not None and has_members and before[0] == generation:
            known = before[1]
        return {"committedOffset": record["offset"], "committedBefore": known}

    def _forget(self, log: tuple[Any, ...], record: Flat) -> None:
        if record.get("type") == "ProducersExpired":
            self._sequences.clear()
        elif "topicId" in record:
            self._ends.pop(log, None)
            self._high_watermarks.pop(log, None)
            removed = [key for key in self._sequences if key[: len(log)] == log]
            for key in removed:
                del self._sequences[key]


def records(rows: Iterable[TopicRow], logs: RowLogs | None = None) -> list[Flat]:
    """Flatten the history, each record with what earlier ones lead to.

    `logs` has the state before the first row, and is updated.
    """
    logs, found = logs or RowLogs(), []
    for row in distinct(rows):
        entry = _document(row)
        record: Flat = entry.get("record") or {}
        cell = row.key.decode("utf-8", "replace") if row.key else None
        found.append(
            {
                "id": row.id,
                "partition": row.partition,
                "offset": row.offset,
                "cell": cell,
                "machine": entry.get("machine"),
                "time": entry.get("time"),
                "type": record.get("type"),
                "topic": record.get("topic") or record.get("topicId"),
                "logPartition": record.get("partition"),
                "producerId": (record.get("batch") or record).get("producerId"),
                "groupId": record.get("groupId"),
                **logs.look(cell, entry.get("machine"), record),
            }
        )
    return found


def offsets(rows: Iterable[TopicRow], cluster: str) -> list[Flat]:
    """Flatten committed offsets without rows of groups; foreign rows have no columns of a key."""
    found = []
    for row in distinct(rows):
        key, value = None, None
        with suppress(ValueError):  # a foreign row, whose missing columns are findings
            if kind_of(row.key or b"") in group_rows.KINDS:
                continue
            key = offset_records.decode_key(row.key or b"")
            value = offset_records.decode_value(row.value) if key and row.value else None
        found.append(
            {
                "id": row.id,
                "partition": row.partition,
                "offset": row.offset,
                "cluster": cluster,
                "groupId": key.group if key is not None else None,
                "topic": key.topic if key is not None else None,
                "topicPartition": key.partition if key is not None else None,
                "committedOffset": None if value is None else value.offset,
                "leaderEpoch": None if value is None else value.leader_epoch,
                "commitTimestamp": None if value is None else value.commit_timestamp,
                "isTombstone": row.value is None,
            }
        )
    return found


def _document(row: TopicRow) -> Flat:
    try:
        document = msgspec.json.decode(row.value or b"{}")
    except msgspec.DecodeError:
        return {}
    return document if isinstance(document, dict) else {}


Reader = Callable[[str], Iterable[TopicRow]]
"""Yields the rows of a topic, named without the prefix."""


def of_kind(kind: str, read: Reader, whole: Reader, cluster: str) -> list[Flat]:
    """Return the rows for a suite.

    Args:
        kind: requests, responses, records or offsets.
        read: reads the selected range.
        whole: reads a whole topic.
        cluster: the cluster of the offsets.
    """
    ways: Mapping[str, Callable[[], list[Flat]]] = {
        "requests": lambda: requests(read(outputs.REQUESTS), whole(outputs.RESPONSES)),
        "responses": lambda: responses(read(outputs.RESPONSES), whole(outputs.REQUESTS)),
        "records": lambda: records(read(outputs.RECORDS)),
        "offsets": lambda: offsets(read(outputs.offsets_topic(cluster)), cluster),
    }
    return ways[kind]()
