"""Validation of records at the gateway, and error texts for refused ones.

The texts are those of Apache Kafka 4.3.1.
"""

from typing import Any

import msgspec
import pytest

from brokertwin.gateway.records import refused_records
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.additions import RecordsSummary, RefusedRecords
from brokertwin.protocol.generated.produce import PartitionProduceResponse
from tests.support.batches import numbered

NOW = 1_795_382_530_413
NO_KEY = "Compacted topic cannot accept message without key in topic partition t-0"


@pytest.mark.parametrize(
    ("batch", "seen"),
    [
        ({"keys": [b"a", b"", b"c"]}, None),
        ({}, {"hasKeyless": True}),
        ({"keys": [None, b"b", b"c"]}, {"hasKeyless": True, "keyedTimestamps": [NOW, NOW]}),
        (
            {"keys": [b"a", None, b"c"], "step": -5},
            {"leastTimestamp": NOW - 10, "hasKeyless": True, "keyedTimestamps": [NOW - 10, NOW]},
        ),
        ({"keys": [b"a"] * 3, "time": -1, "step": 6}, {"leastTimestamp": 5}),
        ({"keys": [b"a"] * 3, "time": -1}, None),
        ({"keys": [b"a"] * 3, "attributes": 8}, {"hasAppendTime": True}),
    ],
)
def test_machine_gets_facts_beyond_the_header(
    batch: dict[str, Any], seen: dict[str, Any] | None
) -> None:
    found = records.parse(numbered(3, **{"time": NOW, **batch}))
    expected = None if seen is None else msgspec.convert(seen, RecordsSummary)
    assert (found.error, found.seen) == (0, expected)


def refused(batch: bytes, error: int, **why: Any) -> tuple[dict[int, str], str | None]:
    """Return the errors of single records by index, and of the batch."""
    fields = {
        "topic": "t",
        "isCompacted": False,
        "takesAppendTime": False,
        "now": NOW,
        "beforeMaxMs": 2**63 - 1,
        "afterMaxMs": 3_600_000,
    }
    response = PartitionProduceResponse(error_code=error)
    has_append_time = why.pop("hasAppendTime", False)
    reason = msgspec.convert(fields | why, RefusedRecords)
    refused_records.add_errors(response, reason, has_append_time, batch)
    found = {
        each.batch_index: each.batch_index_error_message or "" for each in response.record_errors
    }
    return found, response.error_message


def test_records_without_key_are_listed_and_three_are_in_the_text() -> None:
    given, text = refused(numbered(5), 87, isCompacted=True)
    assert given == dict.fromkeys(range(5), NO_KEY)
    shown = ", ".join(f"RecordError(batchIndex={each}, message='{NO_KEY}')" for each in range(3))
    assert text == (
        "One or more records have been rejected due to 5 record errors in total,"
        f" and only showing the first three errors at most: [{shown}]"
    )


def test_timestamp_out_of_range_is_reported_with_the_range_like_java() -> None:
    mixed = numbered(2, keys=[b"k", None], time=NOW + 7_200_000, step=-7_200_000)
    assert refused(mixed, 32, isCompacted=True)[0] == {
        0: f"Timestamp {NOW + 7_200_000} of message with offset 0 is out of range."
        f" The timestamp should be within [-9223370241472245394, {NOW + 3_600_000}]",
        1: NO_KEY,
    }
    early = numbered(2, time=NOW - 5000, step=5000)
    assert refused(early, 32, beforeMaxMs=1000, afterMaxMs=2**63 - 1)[0] == {
        0: f"Timestamp {NOW - 5000} of message with offset 0 is out of range."
        f" The timestamp should be within [{NOW - 1000}, -9223370241472245396]",
    }


def test_client_may_not_claim_log_append_time() -> None:
    batch = numbered(1, keys=[b"k"], time=NOW, attributes=8)
    assert refused(batch, 32, takesAppendTime=True, hasAppendTime=True) == (
        {
            0: f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW},"
            " key=1 bytes, value=2 bytes). Producer should not set timestamp type to LogAppendTime."
        },
        None,
    )
