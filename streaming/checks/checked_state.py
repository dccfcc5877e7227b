"""Flat rows of a job's state for data checks, with columns that compare its items.

A state is given as the columns of its cells. `suites.py` lists the columns of each kind, and
docs/checks.md explains them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from brokertwin.kafka_io.topic_reader import TopicRow as TopicRow
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.core.tables import Table
from brokertwin.state.groups import offset_records
from brokertwin.state.logs.producer import sequence_after
from brokertwin.state.transactions.producer_ids import INT64_MAX, NextBlock, ProducerIds
from brokertwin.streaming.checks.checked_rows import Flat, distinct
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import Columns, ItemKind, Row

Cells = Mapping[str, Columns]

WITHOUT_MEMBERS = ("Empty", "Dead")


def of_kind(kind: str, cells: Cells, before: Cells | None = None) -> list[Flat]:
    """Return the rows for a suite.

    Args:
        kind: one of `suites.OF_STATE`.
        cells: the state.
        before: an earlier state of the same job, for values that must not go back.
    """
    if kind == "logs":
        return logs(cells, before or {})
    return _OF_KIND[kind](cells)


def sessions(cells: Cells) -> list[Flat]:
    """Return the fetch sessions, each with the number of its cached partitions."""
    cached = Counter(
        (each["cell"], each["broker"], each["sessionId"])
        for each in state_rows.rows(ItemKind.SESSION_PARTITIONS, cells)
    )
    return [
        {**row, "cachedPartitions": cached[row["cell"], row["broker"], row["sessionId"]]}
        for row in state_rows.rows(ItemKind.SESSIONS, cells)
    ]


def producers(cells: Cells) -> list[Flat]:
    """Return producers in partitions, each with the gaps between its remembered batches."""
    batches: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for each in state_rows.rows(ItemKind.PRODUCER_BATCHES, cells):
        batches[_producer(each)].append(each)
    found = []
    for row in state_rows.rows(ItemKind.PRODUCERS, cells):
        gaps = sum(
            sequence_after(before["lastSequence"], 1) != after["firstSequence"]
            for before, after in pairwise(batches[_producer(row)])
        )
        names = ("cell", "broker", "topic", "partition", "producerId", "producerEpoch", "batches")
        found.append({**{name: row[name] for name in names}, "sequenceGaps": gaps})
    return found


def _producer(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("cell", "broker", "topic", "partition", "producerId"))


class _Span(NamedTuple):
    """Producer ids from `first` to `end` (exclusive), and what has them."""

    first: int
    end: int
    kind: str
    holder: str


def producer_ids(cells: Cells) -> list[Flat]:
    """Return the spans of producer ids of each cluster, each with the number that it overlaps.

    A span is the id of a transactional id, a broker's ids that are not issued yet, or the
    controller's ids without a block.
    """
    by_cluster: dict[str, set[_Span]] = defaultdict(set)  # a follower has its coordinator's ids
    for cell, columns in cells.items():
        by_cluster[cluster_of(cell)].update(_spans(columns))
    for row in state_rows.rows(ItemKind.TRANSACTIONAL_IDS, cells):
        first = row["producerId"]
        span = _Span(first, first + 1, "transactional-id", row["transactionalId"])
        by_cluster[cluster_of(row["cell"])].add(span)
    return [
        {"cluster": cluster, **each._asdict(), "overlaps": number}
        for cluster, spans in sorted(by_cluster.items())
        for each, number in zip(sorted(spans), _overlaps(sorted(spans)), strict=True)
    ]


def _spans(columns: Columns) -> Iterator[_Span]:
    """Yield the unissued ids of brokers and the unallocated ids of the controller."""
    table = Table(columns.get("metadata", b""))
    controller = machine_prefix(CONTROLLER)
    for key in table.keys(""):
        machine, _, kind = key.partition("/")
        if kind != "producer-ids":
            continue
        if machine == controller:
            unallocated = table.get(key, NextBlock) or NextBlock()
            yield _Span(unallocated.first, INT64_MAX, "unallocated", machine)
            continue
        ids = table.get(key, ProducerIds)
        assert ids is not None, key
        blocks = [(ids.next_id, ids.current.end)]
        if ids.following is not None:
            blocks.append((ids.following.first, ids.following.end))
        for first, end in blocks:
            if first < end:
                yield _Span(first, end, "unissued", f"broker {machine}")


def _overlaps(spans: list[_Span]) -> list[int]:
    """Count for each of the sorted spans the others that share an id with it."""
    found = [0] * len(spans)
    open_spans: list[int] = []
    for number, span in enumerate(spans):
        open_spans = [each for each in open_spans if spans[each].end > span.first]
        for each in open_spans:
            found[each] += 1
        found[number] += len(open_spans)
        open_spans.append(number)
    return found


def groups(cells: Cells) -> list[Flat]:
    """Return the groups; compare each with its members."""
    members: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for each in state_rows.rows(ItemKind.MEMBERS, cells):
        members[each["cell"], each["broker"], each["groupId"]].append(each)
    names = ("cell", "broker", "groupId", "type", "state", "generation", "leader", "members")
    found = []
    for row in state_rows.rows(ItemKind.GROUPS, cells):
        own = members[row["cell"], row["broker"], row["groupId"]]
        found.append(
            {
                **{name: row[name] for name in names},
                "stateFitsMembers": (row["state"] in WITHOUT_MEMBERS) == (not own),
                "leaderIsMember": row["leader"] in {"", *(each["memberId"] for each in own)},
                "newestMemberEpoch": max((each["memberEpoch"] for each in own), default=-1),
            }
        )
    return found


def logs(cells: Cells, before: Cells) -> list[Flat]:
    """Return the logs, each with how far its high watermark went back.

    0 after a new leader epoch, because a new leader may have fewer records.
    """
    known = {_log(row): row for row in state_rows.rows(ItemKind.LOGS, before)}
    names = (
        *("cell", "broker", "topic", "partition", "leaderEpoch"),
        *("logStartOffset", "lastStableOffset", "highWatermark", "logEndOffset"),
    )
    found = []
    for row in state_rows.rows(ItemKind.LOGS, cells):
        earlier = known.get(_log(row), row)["highWatermark"]
        back = max(0, earlier - row["highWatermark"])
        found.append({**{name: row[name] for name in names}, "highWatermarkBack": back})
    return found


def _log(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("cell", "broker", "topicId", "partition", "leaderEpoch"))


_OF_KIND = {
    "sessions": sessions,
    "producers": producers,
    "producer-ids": producer_ids,
    "groups": groups,
}


ONLY_IN_TOPIC, ONLY_IN_SNAPSHOT = "only in the topic", "only in the snapshot"
COMPARED = ("offset", "leader_epoch", "metadata", "commit_timestamp")


def snapshot_and_topic(
    cluster: str,
    snapshot: Iterable[SnapshotRow],
    topic: Iterable[TopicRow],
    ends: Mapping[int, int],
) -> list[Flat]:
    """Compare the committed offsets in a snapshot with the compacted topic of their cluster.

    A key whose rows up to the snapshot have been compacted away is left out.

    Args:
        cluster: name of the cluster.
        snapshot: rows of the snapshot; those of other clusters are ignored.
        topic: rows of `offsets.<cluster>`, from its beginning.
        ends: by partition of `requests` the offset of the first event after the snapshot.
    """
    stored = {
        offset_records.OffsetKey(row.group, row.topic, row.partition): row
        for row in snapshot
        if row.cluster == cluster
    }
    written: dict[offset_records.OffsetKey, bytes | None] = {}
    later = set()
    for row in distinct(topic):
        key = offset_records.decode_key(row.key or b"")
        if key is None:
            continue
        if _is_later(row.id, ends):
            later.add(key)
        else:
            written[key] = row.value
    found = []
    for key in sorted(stored.keys() | written.keys() | later):
        if key not in written and key in later:
            continue
        committed, value = stored.get(key), written.get(key)
        kept = None if value is None else offset_records.decode_value(value)
        found.append(
            {
                "cluster": cluster,
                "group": key.group,
                "topic": key.topic,
                "partition": key.partition,
                "offset": None if committed is None else committed.offset,
                "topicOffset": None if kept is None else kept.offset,
                "difference": _difference(committed, kept),
            }
        )
    return found


def _is_later(row_id: str, ends: Mapping[int, int]) -> bool:
    """Whether the event of a row with an id `<cell>/<partition>/<offset>/<ordinal>` is later."""
    *_, partition, offset, _ordinal = row_id.rsplit("/", 3)
    return int(offset) >= ends.get(int(partition), 0)


def _difference(row: SnapshotRow | None, kept: Any) -> str | None:
    """Name what differs; None if both are equal or both are missing."""
    if row is None or kept is None:
        if row is not None:
            return ONLY_IN_SNAPSHOT
        return None if kept is None else ONLY_IN_TOPIC
    differ = [name for name in COMPARED if getattr(row, name) != getattr(kept, name)]
    return ", ".join(differ) or None
