"""Committed offsets of a real cluster: `__consumer_offsets`, and the admin API."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.errors import (
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoError,
)
from kafka.errors import KafkaError as KafkaPythonError

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    consumer,
    first_and_end,
    is_end,
    polled,
    read_all,
    when_there,
)
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    admin_client,
    existing,
    metadata,
    timeout_error,
)
from brokertwin.offsets.history import CoordinatorRow
from brokertwin.offsets.plan import ClusterOffsets, OffsetStep
from brokertwin.offsets.share_progress import ShareProgress, lag
from brokertwin.state.core.share_records import ShareStateBatch
from brokertwin.state.groups.offset_records import OffsetKey

if TYPE_CHECKING:
    from brokertwin.offsets.store import OffsetHistoryStore

TOPIC = "__consumer_offsets"
SHARE_TOPIC = "__share_group_state"
"""Topic of share groups' positions (KIP-932)."""

CHUNK_ROWS = 16_384
"""Rows of a file of an import, which are in memory together."""

POLL_S = 1.0
COORDINATOR_TRIES, COORDINATOR_BACKOFF_S = 25, 0.2

FOR_URLS = str.maketrans("+/", "-_")
SHARE, STREAMS, EMPTY = "share", "streams", "Empty"
"""Group types and a state, as in ListGroups."""

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NEWEST = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

NO_COORDINATOR_YET = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

NO_RESPONSE = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._RESOLVE})
NO_RESPONSE_PYTHON = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)

Place = tuple[str, int]


class ShareRow(NamedTuple):
    """Progress of a share group in a partition; `lag` is None if unknown."""

    group: str
    topic: str
    partition: int
    start: int
    lag: int | None
    batches: list[ShareStateBatch]


class CommittedPosition(NamedTuple):
    """A committed offset of the group; `exists` is False if the cluster has no such partition."""

    topic: str
    partition: int
    offset: int
    exists: bool


class NextRecord(NamedTuple):
    """The first record at or after an offset; its timestamp in ms since 1970.

    If no record `exists` there, it is a millisecond after the newest one; None if the log is empty.
    """

    timestamp: int | None
    exists: bool = False


def cluster_id(client: ClientProperties) -> str:
    """Return the id of the cluster. Raises UserError."""
    return str(metadata(admin_client(client), client).cluster_id)


def rows(
    client: ClientProperties,
    first: Mapping[int, int],
    observe: Callable[[int], None] = lambda _: None,
    topic: str = TOPIC,
) -> Iterator[CoordinatorRow]:
    """Yield the rows of `__consumer_offsets`, without aborted transactions.

    Args:
        client: connection properties.
        first: first offsets of partitions that are not read from the beginning.
        observe: called with the number of offsets to read, first in total, then remaining.
        topic: another topic with such rows, like a job's `offsets.<cluster>`, or `SHARE_TOPIC`.

    Raises:
        UserError: the topic does not exist, or the cluster does not respond.
    """
    if topic not in existing(admin_client(client), client):
        raise UserError(
            f"The topic {topic} at {client.bootstrap} is missing, or the user is not authorized to"
            " see it.",
            f"Kafka creates it when the first group joins. The user needs Describe and Read on"
            f" {topic}.",
        )
    try:
        for row in read_all(client, topic, first, observe):
            if row.key is not None:
                yield CoordinatorRow(row.partition, row.offset, row.timestamp, row.key, row.value)
    except KafkaException as error:
        raise _refused(client, error) from None


def import_rows(
    client: ClientProperties,
    store: "OffsetHistoryStore",
    cluster: str,
    topic: str = TOPIC,
    observe: Callable[[int], None] = lambda _: None,
) -> int:
    """Add the rows since the last import in chunks; return their number.

    A stop keeps the chunks that were written. Raises UserError as `rows`.
    """
    facts, count = store.facts(), 0
    new = rows(client, facts.next_offsets if facts else {}, observe, topic)
    while chunk := sorted(islice(new, CHUNK_ROWS)):
        count += store.add(cluster, chunk, {row.partition: row.offset + 1 for row in chunk})
    return count if count or facts is not None else store.add(cluster, (), {})


def share_progress(
    client: ClientProperties, groups: Collection[str], observe: Callable[[int], None]
) -> tuple[list[ShareRow], dict[tuple[int, int], str]]:
    """Return the progress of share groups, and the errors of unreadable rows.

    Raises:
        UserError: the cluster does not respond, has no share group, or none of these.
    """
    seen = ShareProgress()
    for row in sorted(rows(client, {}, observe, SHARE_TOPIC)):
        seen.take(row)
    lacking = sorted(set(groups) - {key.group for key in seen.found})
    if lacking:
        raise UserError(
            f"{client.bootstrap} has no state of the share groups {', '.join(lacking)}.",
            "Leave out --group to list all share groups.",
        )
    chosen = {key: state for key, state in seen.found.items() if not groups or key.group in groups}
    names = topic_names(client)
    places = {key: (names.get(key.topic_id, key.topic_id), key.partition) for key in chosen}
    log_ends = ends(client, [place for key, place in places.items() if key.topic_id in names])
    share_rows = [
        ShareRow(
            key.group,
            *place,
            chosen[key].start_offset,
            lag(chosen[key], log_ends[place]) if place in log_ends else None,
            chosen[key].batches,
        )
        for key, place in places.items()
    ]
    return sorted(share_rows, key=lambda row: row[:3]), seen.unread


def found(client: ClientProperties, keys: Iterable[OffsetKey]) -> ClusterOffsets:
    """Return a cluster's facts about groups and partitions. Raises UserError."""
    wanted = list(keys)
    admin = admin_client(client)
    there = existing(admin, client)
    places = {
        (key.topic, key.partition) for key in wanted if key.partition < there.get(key.topic, 0)
    }
    groups: dict[str, list[OffsetKey]] = {}
    sharing: set[str] = set()
    for key in wanted:
        groups.setdefault(key.group, []).append(key)
    try:
        logs = _logs(admin, places)
        # before the consumer, which takes a missing permission for a timeout
        with_members = {group for group in groups if _has_members(admin, group)}
        committed: dict[OffsetKey, int] = {}
        for keys in groups.values():
            committed |= _committed(client, keys)
    except KafkaException as error:
        raise _refused(client, error) from None
    for group, (kind, state) in _kinds(client, groups.keys() - with_members).items():
        if kind == SHARE:
            sharing.add(group)
        elif kind == STREAMS and state != EMPTY:
            with_members.add(group)
    return ClusterOffsets(logs, committed, frozenset(with_members), frozenset(sharing))


def logs(client: ClientProperties, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
    """Return start and end offsets of the existing partitions. Raises UserError."""
    admin = admin_client(client)
    there = existing(admin, client)
    wanted = {(topic, number) for topic, number in places if number < there.get(topic, 0)}
    try:
        return _logs(admin, wanted)
    except KafkaException as error:
        raise _refused(client, error) from None


def at_timestamps(client: ClientProperties, times: Mapping[Place, int]) -> dict[Place, int]:
    """Return the first offset at or after a time for each partition, or its end offset.

    `times`: topic and partition to ms since 1970.
    """
    admin = admin_client(client)
    try:
        at = _listed(admin, {p: OffsetSpec.for_timestamp(at) for p, at in times.items()})
        without = {place: LATEST for place, offset in at.items() if offset < 0}
        return at | _listed(admin, without)
    except KafkaException as error:
        raise _refused(client, error) from None


def next_records(client: ClientProperties, offsets: Mapping[Place, int]) -> dict[Place, NextRecord]:
    """Return the timestamp of the first record at or after each offset.

    Omits missing partitions, and offsets beyond the log end. Raises UserError.
    """
    if not offsets:
        return {}
    admin = admin_client(client)
    there = existing(admin, client)
    records: dict[Place, NextRecord] = {}
    try:
        with closing(consumer(client)) as reader:
            for place, offset in offsets.items():
                topic, partition = place
                if partition >= there.get(topic, 0):
                    continue
                first, end = first_and_end(reader, TopicPartition(topic, partition))
                if offset > end:
                    continue
                if first == end:
                    records[place] = NextRecord(None)
                    continue
                at = TopicPartition(*place, max(offset, first))
                found_at = _timestamp_at(reader, at) if offset < end else None
                if found_at is not None:
                    records[place] = NextRecord(found_at, True)
                    continue
                newest = _list_offsets(admin, {place: NEWEST})[place].timestamp
                if newest >= 0:
                    records[place] = NextRecord(newest + 1)
    except KafkaException as error:
        raise _refused(client, error) from None
    return records


def write(
    client: ClientProperties, group: str, steps: Sequence[OffsetStep]
) -> dict[OffsetKey, str]:
    """Commit offsets of a group without members, and verify them.

    Returns:
        Errors by key; empty if all offsets are as written.
    """
    admin = admin_client(client)
    partitions = [
        TopicPartition(step.key.topic, step.key.partition, step.wanted)
        for step in steps
        if step.wanted is not None
    ]
    wrong: dict[OffsetKey, str] = {}
    try:
        futures = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=KAFKA_TIMEOUT_S
        )
        for partition in _only(futures).topic_partitions:
            if partition.error is not None:
                key = OffsetKey(group, partition.topic, partition.partition)
                wrong[key] = partition.error.str()
        committed = _committed(client, [step.key for step in steps])
    except KafkaException as error:
        return {step.key: error.args[0].str() for step in steps}
    for step in steps:
        there = committed.get(step.key)
        if there != step.wanted:
            wrong.setdefault(step.key, f"read back as {there}, not {step.wanted}")
    return wrong


def topic_names(client: ClientProperties) -> dict[str, str]:
    """Return topic ids in Kafka's alphabet to names, of all topics.

    librdkafka formats a Uuid in standard base64, Kafka in base64url. Raises UserError.
    """
    admin = admin_client(client)
    try:
        described = admin.describe_topics(
            TopicCollection([*existing(admin, client)]), request_timeout=KAFKA_TIMEOUT_S
        )
        descriptions = {name: future.result() for name, future in described.items()}
    except KafkaException as error:
        raise _refused(client, error) from None
    return {str(each.topic_id).translate(FOR_URLS): name for name, each in descriptions.items()}


def ends(client: ClientProperties, places: Iterable[Place]) -> dict[Place, int]:
    """Return the end offsets of partitions. Raises UserError as `topic_names`."""
    try:
        return _listed(admin_client(client), dict.fromkeys(places, LATEST))
    except KafkaException as error:
        raise _refused(client, error) from None


def _only(futures: Mapping[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result()


def _logs(admin: AdminClient, places: Collection[Place]) -> dict[Place, tuple[int, int]]:
    starts = _listed(admin, dict.fromkeys(places, EARLIEST))
    ends = _listed(admin, dict.fromkeys(places, LATEST))
    return {place: (starts[place], ends[place]) for place in places}


def _listed(admin: AdminClient, specs: Mapping[Place, OffsetSpec]) -> dict[Place, int]:
    return {place: listed.offset for place, listed in _list_offsets(admin, specs).items()}


def _list_offsets(admin: AdminClient, specs: Mapping[Place, OffsetSpec]) -> dict[Place, Any]:
    if not specs:
        return {}
    futures = admin.list_offsets(
        {TopicPartition(*place): spec for place, spec in specs.items()},
        request_timeout=KAFKA_TIMEOUT_S,
    )
    listed = {
        (partition.topic, partition.partition): future.result()
        for partition, future in futures.items()
    }
    if any(each.offset == OFFSET_INVALID for each in listed.values()):  # librdkafka gives no error
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return listed


def _committed(client: ClientProperties, keys: Sequence[OffsetKey]) -> dict[OffsetKey, int]:
    """Return the committed offsets of one group.

    Uses a consumer, which waits for the coordinator: the admin client crashes if the cluster has no
    `__consumer_offsets` yet (confluent-kafka 2.16).
    """
    partitions = [TopicPartition(key.topic, key.partition) for key in keys]
    with closing(consumer(client, {"group.id": keys[0].group})) as reader:
        futures = when_there(
            lambda: reader.committed(partitions, KAFKA_TIMEOUT_S), NO_COORDINATOR_YET
        )
    return {
        key: partition.offset
        for key, partition in zip(keys, futures, strict=True)
        if partition.offset != OFFSET_INVALID
    }


def _has_members(admin: AdminClient, group: str) -> bool:
    try:
        described = when_there(
            lambda: _only(admin.describe_consumer_groups([group], request_timeout=KAFKA_TIMEOUT_S)),
            NO_COORDINATOR_YET,
        )
        return bool(described.members)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return False
        raise


def _kinds(client: ClientProperties, groups: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return type and state of the existing groups.

    Uses kafka-python: confluent-kafka's admin client reports share and streams groups as missing.
    Brokers before Kafka 4.0 have neither, and return no type. If kafka-python cannot log in, or a
    broker is down, nothing is known; writes to such a group then fail.
    """
    try:
        with closing(KafkaAdminClient(**client.for_kafka_python())) as admin:
            listed = admin.list_groups()
    except KafkaPythonError:
        return {}
    return {
        each["group_id"]: (each.get("group_type", ""), each.get("group_state", ""))
        for each in listed
        if each["group_id"] in groups
    }


def _timestamp_at(reader: Consumer, partition: TopicPartition) -> int | None:
    reader.assign([partition])
    while True:
        for message in polled(reader, 1, POLL_S):
            return None if is_end(message) else int(message.timestamp()[1])


def _refused(client: ClientProperties, error: KafkaException) -> UserError:
    if error.args[0].code() in NO_RESPONSE:
        return timeout_error(client, error.args[0].str())
    return UserError(
        f"Kafka at {client.bootstrap} refused the request: {error.args[0].str()}.",
        "Check the user's ACLs: Describe on the topics and groups, and Read on both to commit.",
    )


def deletable(client: ClientProperties, group: str) -> list[CommittedPosition]:
    """Check that the offsets of a group may be deleted, and list them by topic and partition.

    Raises:
        UserError: the group does not exist, has members or no offsets, or a request failed.
    """
    counts = existing(admin_client(client), client)
    try:
        with closing(KafkaAdminClient(**client.for_kafka_python())) as admin:
            committed = _committed_at_coordinator(admin, group)
            _check_deletable(admin, client, group, bool(committed))
    except KafkaPythonError as error:
        raise _not_cleaned(client, error) from None
    positions = [
        CommittedPosition(topic, number, value.offset, number < counts.get(topic, 0))
        for (topic, number), value in sorted(committed.items())
        if value.offset >= 0
    ]
    if not positions:
        raise UserError(
            f"Group {group} at {client.bootstrap} has no committed offsets.",
            "The user sees those of topics for which it has Describe.",
        )
    return positions


def delete(
    client: ClientProperties, group: str, places: Iterable[CommittedPosition]
) -> dict[CommittedPosition, str]:
    """Delete offsets of a group; return the error of each one that still exists."""
    partitions = {PythonPartition(each.topic, each.partition): each for each in places}
    try:
        with closing(KafkaAdminClient(**client.for_kafka_python())) as admin:
            errors = admin.delete_group_offsets(group, list(partitions))
    except KafkaPythonError as error:
        raise _not_cleaned(client, error) from None
    return {partitions[at]: each.__name__ for at, each in errors.items() if each is not NoError}


def _committed_at_coordinator(admin: KafkaAdminClient, group: str) -> Any:
    """Return the committed offsets of a group; wait until a new cluster has its coordinators."""
    for _ in range(COORDINATOR_TRIES):
        try:
            return admin.list_group_offsets(group)[group]
        except CoordinatorNotAvailableError:
            time.sleep(COORDINATOR_BACKOFF_S)
    return admin.list_group_offsets(group)[group]


def _check_deletable(
    admin: KafkaAdminClient, client: ClientProperties, group: str, has_offsets: bool
) -> None:
    """Raise UserError unless the group exists and is empty.

    Brokers that store offsets in ZooKeeper do not list a group without members.
    """
    listed = {each["group_id"]: each for each in admin.list_groups()}
    if group not in listed:
        if has_offsets:
            return
        raise UserError(
            f"Group {group} does not exist at {client.bootstrap}, or the user may not see it.",
            "Check the group id: brokertwin offsets show lists all. The user needs Describe on it.",
        )
    if listed[group].get("group_type") == SHARE:
        raise UserError(f"Group {group} is a share group, which has no committed offsets.")
    state = listed[group].get("group_state", EMPTY)
    if state != EMPTY:
        raise UserError(
            f"Group {group} has live members: its state is {state}.",
            "Stop its members first, or wait until their sessions time out.",
        )


def _not_cleaned(client: ClientProperties, error: KafkaPythonError) -> UserError:
    if isinstance(error, NO_RESPONSE_PYTHON):
        return timeout_error(client, str(error))
    return UserError(
        f"Kafka at {client.bootstrap} refused the request: {type(error).__name__}.",
        "The user needs Describe on the group and its topics; to delete, Delete on the group and"
        " Read on its topics.",
    )
