"""The batches of recorded appends: which of them a look-up by timestamp may name."""

from typing import Any

import msgspec
import pytest

from brokertwin.recordings.replay.appended import Appended
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import RequestHeader

BATCH = {"lastOffsetDelta": 4, "baseTimestamp": 100, "maxTimestamp": 140}
WITHIN = {"baseOffset": 10, "lastOffset": 14, "baseTimestamp": 100, "maxTimestamp": 140}


def exchange(key: int, request: Any, response: Any) -> Exchange:
    return Exchange(
        id=f"{key}",
        time=1,
        end=2,
        broker=1,
        header=RequestHeader(key, 7),
        request=msgspec.Raw(msgspec.json.encode(request)),
        response=response,
        is_recorded=True,
        connection="c1",
        principal="User:ANONYMOUS",
    )


def produced(reply: dict[str, Any] | None) -> Exchange:
    """Two batches at offsets [5, 10], unless `reply` differs."""
    first = {"lastOffsetDelta": 4, "baseTimestamp": 1, "maxTimestamp": 50}
    data = [{"name": "orders", "partitionData": [{"index": 0, "batches": [first, BATCH]}]}]
    partition = None if reply is None else {"index": 0, "errorCode": 0, "baseOffset": 5, **reply}
    response = {"responses": [{"name": "orders", "partitionResponses": [partition]}]}
    return exchange(0, {"topicData": data}, None if reply is None else response)


def is_known(appended: Exchange, topic: str = "orders", **changed: Any) -> bool:
    listed = {"partitionIndex": 0, "offset": 12, "within": {**WITHIN, **changed}}
    response = {"topics": [{"name": topic, "partitions": [listed]}]}
    return not Appended([appended]).unknown(exchange(2, {}, response), response)


def test_a_batch_is_identified_by_offsets_and_times() -> None:
    assert is_known(produced({}))
    assert not is_known(produced({}), topic="billing")
    for name, value in WITHIN.items():
        assert not is_known(produced({}), **{name: value + 1}), name


def test_a_rejected_batch_is_not_identified() -> None:
    assert not is_known(produced({"errorCode": 87}))


def test_without_a_recorded_offset_the_header_identifies_the_batch() -> None:
    assert is_known(produced(None))
    assert is_known(produced(None), baseOffset=20, lastOffset=24)
    assert not is_known(produced(None), lastOffset=15)


def test_the_time_of_the_append_is_that_of_every_record() -> None:
    assert is_known(produced({"logAppendTimeMs": 99}), baseTimestamp=99, maxTimestamp=99)
    assert not is_known(produced({"logAppendTimeMs": 99}))


@pytest.mark.parametrize(("first", "is_there"), [(11, True), (14, True), (9, False), (15, False)])
def test_deletions_may_have_cut_a_batch(first: int, is_there: bool) -> None:
    assert is_known(produced({}), baseOffset=first, baseTimestamp=-1) is is_there


def test_the_next_batch_is_identified() -> None:
    other = {"baseOffset": 5, "lastOffset": 9, "baseTimestamp": 1, "maxTimestamp": 50}
    assert is_known(produced({}), orElse=other)
    assert not is_known(produced({}), orElse={**other, "lastOffset": 8})


def test_a_sealed_segment_ends_with_a_batch_and_has_the_time_of_one() -> None:
    sealed = {"isSealed": True, "baseOffset": 0, "baseTimestamp": -1}
    assert is_known(produced({}), **sealed)
    assert not is_known(produced({}), **sealed, maxTimestamp=141)
    assert not is_known(produced({}), **{**sealed, "lastOffset": 13})
