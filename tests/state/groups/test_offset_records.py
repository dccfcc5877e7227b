"""Committed offsets in the record format of `__consumer_offsets`."""

import base64
import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue as Value
from brokertwin.state.cluster.topics import is_uuid
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.offset_records import OffsetKey
from tests.support.goldens import golden, source_of
from tests.support.patience import PATIENCE_S

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UUIDS = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")
)
COMMITS = st.builds(
    OffsetCommitted, st.text(), st.text(), INT32, INT64, INT32, st.text(), INT64, INT64, UUIDS
)


def committed(**changed: Any) -> OffsetCommitted:
    fields: dict[str, Any] = {
        "group_id": "g",
        "topic": "t",
        "partition": 1,
        "offset": 9,
        "leader_epoch": 2,
        "metadata": "m",
        "commit_timestamp": 1_795_230_902_045,
    }
    return OffsetCommitted(**(fields | changed))


@given(COMMITS)
def test_encoding_and_decoding_are_inverse(record: OffsetCommitted) -> None:
    key, value = offset_records.committed(record)
    assert offset_records.decode_key(key) == OffsetKey(
        record.group_id, record.topic, record.partition
    )
    decoded = offset_records.decode_value(value)
    has_expiry = record.expire_timestamp != -1
    assert decoded == Value(
        record.offset,
        -1 if has_expiry else record.leader_epoch,
        record.metadata,
        record.commit_timestamp,
        record.expire_timestamp,
        ZERO_UUID if has_expiry else record.topic_id,
    )


def test_deletion_is_a_tombstone_with_the_key_of_the_commit() -> None:
    key, value = offset_records.deleted(OffsetDeleted("g", "t", 1))
    assert value is None
    assert key == offset_records.committed(committed())[0] == b"\0\1\0\1g\0\1t\0\0\0\1"


def test_commit_with_a_retention_as_written_by_kafka_4_3_1() -> None:
    written = bytes.fromhex("0001 0000000000000001 0000 000001a1fc19a71d 000001a1fc19ab05")
    record = committed(
        offset=1, metadata="", commit_timestamp=0x1A1FC19A71D, expire_timestamp=0x1A1FC19AB05
    )
    assert offset_records.committed(record)[1] == written


def test_commit_as_written_by_kafka_4_3_1() -> None:
    topic_id = bytes.fromhex("eb663264bd2c44b8ba7e39490fd11e78")
    written = bytes.fromhex("0004 0000000000000002 ffffffff 02 78 000001a1fc19a68a 01 00 10")
    decoded = offset_records.decode_value(written + topic_id)
    assert (decoded.offset, decoded.leader_epoch, decoded.metadata) == (2, -1, "x")
    assert is_uuid(decoded.topic_id)
    record = committed(
        offset=2,
        leader_epoch=-1,
        metadata="x",
        commit_timestamp=0x1A1FC19A68A,
        topic_id=decoded.topic_id,
    )
    assert offset_records.committed(record)[1] == written + topic_id


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000 0000000000000005 0001 6d 0000000000000007", Value(5, -1, "m", 7)),
        ("0002 0000000000000005 0001 6d 0000000000000007", Value(5, -1, "m", 7)),
        ("0003 0000000000000005 00000002 0001 6d 0000000000000007", Value(5, 2, "m", 7)),
        ("0004 0000000000000005 00000002 02 6d 0000000000000007 00", Value(5, 2, "m", 7)),
        (
            "0004 0000000000000005 00000002 02 6d 0000000000000007 01 09 03 616263",
            Value(5, 2, "m", 7),
        ),
    ],
)
def test_all_value_versions_are_decoded(value: str, expected: Value) -> None:
    assert offset_records.decode_value(bytes.fromhex(value)) == expected


def test_both_key_versions_are_decoded_and_other_records_are_none() -> None:
    for version in (0, 1):
        key = struct.pack(">h", version) + b"\0\1g\0\1t\0\0\0\1"
        assert offset_records.decode_key(key) == OffsetKey("g", "t", 1)
    assert offset_records.decode_key(b"\0\2\0\1g") is None, "the metadata of a group"


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 17, 20, 30])
def test_truncated_bytes_are_an_error(cut: int) -> None:
    key, value = offset_records.committed(committed())
    with pytest.raises(ValueError, match=r"too early|bytes are there|without a kind|length -"):
        offset_records.decode_value(value[: min(cut, len(value) - 1)])
    with pytest.raises(ValueError, match=r"too early|bytes are there|without a kind|length -"):
        offset_records.decode_key(key[: min(cut, len(key) - 1)])


def test_trailing_bytes_and_unknown_versions_are_errors() -> None:
    key, value = offset_records.committed(committed())
    with pytest.raises(ValueError, match="1 bytes too many"):
        offset_records.decode_key(key + b"\0")
    with pytest.raises(ValueError, match="1 bytes too many"):
        offset_records.decode_value(value + b"\0")
    with pytest.raises(ValueError, match="versions 0 to 4, not 5"):
        offset_records.decode_value(b"\0\5" + value[2:])


def test_string_too_long_for_kafka_is_an_error() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        offset_records.committed(committed(group_id="é" * 32768))


def offsets_topic(bootstrap: str, group: str, count: int) -> list[tuple[bytes, bytes | None]]:
    """The first `count` records of a group in a broker's `__consumer_offsets`."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        name = "__consumer_offsets"
        partitions = [TopicPartition(name, p) for p in consumer.partitions_for_topic(name)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[tuple[bytes, bytes | None]] = []
        end = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < end:
            for records in consumer.poll(200).values():
                for record in records:
                    key = offset_records.decode_key(record.key)
                    if key is not None and key.group == group:
                        found.append((record.key, record.value))
        return found
    finally:
        consumer.close()


def commit(admin: Any, group: str, offsets: dict[Any, Any]) -> None:
    from kafka.errors import CoordinatorNotAvailableError, NoError, NotCoordinatorError

    end = time.monotonic() + PATIENCE_S
    results: set[Any] = set()
    while results != {NoError}:
        assert time.monotonic() < end, results
        try:
            results = set(admin.alter_group_offsets(group, offsets).values())
        except (CoordinatorNotAvailableError, NotCoordinatorError) as error:
            results = {type(error)}
        time.sleep(0 if results == {NoError} else 0.2)


def written_by(kafka: str, group: str, topic: str) -> list[Any]:
    """Commit two offsets, delete one of them, and read the rows."""
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import NewTopic
    from kafka.structs import OffsetAndMetadata

    admin = KafkaAdminClient(bootstrap_servers=kafka)
    try:
        admin.create_topics([NewTopic(topic, 2, 1)], wait_for_metadata=True)
        partitions = [TopicPartition(topic, number) for number in (0, 1)]
        commit(admin, group, {partitions[0]: OffsetAndMetadata(7, "", -1)})
        commit(admin, group, {partitions[1]: OffsetAndMetadata(2**40, "é" * 200, 3)})
        admin.delete_group_offsets(group, [partitions[0]])
        return offsets_topic(kafka, group, 3)
    finally:
        admin.close()


def test_rows_equal_those_of_a_real_broker(real_kafka: Address) -> None:
    group, topic = "group/é", "offsets-of-rows"
    bootstrap = f"{real_kafka.host}:{real_kafka.port}"
    written = golden(
        "groups/offset_rows",
        lambda: written_by(bootstrap, group, topic),
        scenario=source_of(written_by),
    )
    assert len(written) == 3
    stored = [offset_records.decode_value(value) for _, value in written[:2] if value is not None]
    assert len({value.topic_id for value in stored} - {ZERO_UUID}) == 1
    ours = [
        OffsetCommitted(
            group, topic, 0, 7, -1, "", stored[0].commit_timestamp, -1, stored[0].topic_id
        ),
        OffsetCommitted(
            group, topic, 1, 2**40, 3, "é" * 200, stored[1].commit_timestamp, -1, stored[1].topic_id
        ),
    ]
    gone = offset_records.deleted(OffsetDeleted(group, topic, 0))
    assert [*map(offset_records.committed, ours), gone] == written
