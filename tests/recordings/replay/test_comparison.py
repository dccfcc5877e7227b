"""One response against the recorded one: any wrong field is found, except those that are listed."""

import base64
import copy
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol import control_batches
from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.protocol.bodies import render
from brokertwin.recordings.replay import report
from brokertwin.recordings.replay.before import ENTRIES
from brokertwin.recordings.replay.comparison import (
    Comparer,
    CompareVerdict,
    ComparisonOutcome,
    FieldDifference,
    ModelResponse,
    compare,
    decode_response,
    keyed,
)
from brokertwin.recordings.replay.findings import request_with_findings
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.masking import MASKED, masked
from brokertwin.recordings.replay.recording import Exchange, read
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.share import dead_letters
from tests.support.sources import ROOT

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz"))
START = 1_700_000_000_000
LOOKED_AT = 60
"""Exchanges of one API and version that are looked at for new kinds of responses."""

Path_ = tuple[str | int, ...]


@cache
def one_of_each_kind() -> list[Exchange]:
    """For each API, version and shape of response in the captures one exchange with a response."""
    found: dict[Any, Exchange] = {}
    looked_at: Counter[tuple[str, int]] = Counter()
    for exchange in read(CAPTURES).exchanges:
        kind = exchange.api, exchange.version
        looked_at[kind] += 1
        if exchange.response is not None and looked_at[kind] <= LOOKED_AT:
            paths = leaves(exchange.response)
            shape = {tuple(key for key in path if isinstance(key, str)) for path in paths}
            found.setdefault((*kind, frozenset(shape)), exchange)
    return list(found.values())


def leaves(value: Any, path: Path_ = ()) -> list[Path_]:
    if not isinstance(value, dict | list) or not value:
        return [path]
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, part in parts for leaf in leaves(part, (*path, key))]


def at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


def other(value: Any) -> Any:
    """A different value, of the same kind where there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return 0


def with_leaf(response: Any, path: Path_, value: Any) -> Any:
    changed = copy.deepcopy(response)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def verdict(exchange: Exchange, got: Any) -> CompareVerdict:
    outcome = Comparer({exchange.id: exchange}).compare(exchange.id, ModelResponse(response=got))
    return outcome.verdict


AGREES = {CompareVerdict.AGREE, CompareVerdict.AGREE_INSIDE}


def is_masked(path: Path_) -> bool:
    return any(key in MASKED for key in path)


def exchanges() -> st.SearchStrategy[Exchange]:
    return st.deferred(lambda: st.sampled_from(one_of_each_kind()))


@st.composite
def wrong_leaves(draw: st.DrawFn) -> tuple[Exchange, Path_]:
    exchange = draw(exchanges())
    found = [path for path in leaves(exchange.response) if path and not is_masked(path)]
    return exchange, draw(st.sampled_from(found))


def test_the_captures_have_every_kind_of_response() -> None:
    assert len(one_of_each_kind()) > 100
    assert {verdict(exchange, exchange.response) for exchange in one_of_each_kind()} <= AGREES


@given(planted=wrong_leaves())
def test_a_wrong_value_anywhere_is_found(planted: tuple[Exchange, Path_]) -> None:
    exchange, path = planted
    value = at(exchange.response, path)
    assert (
        verdict(exchange, with_leaf(exchange.response, path, other(value))) is CompareVerdict.DIFFER
    )


@given(planted=wrong_leaves())
def test_a_value_of_another_type_is_found(planted: tuple[Exchange, Path_]) -> None:
    exchange, path = planted
    value = at(exchange.response, path)
    for wrong in (None, str(value), float(value) if isinstance(value, int) else 0.5, [value]):
        if type(wrong) is not type(value):
            got = with_leaf(exchange.response, path, wrong)
            assert verdict(exchange, got) is CompareVerdict.DIFFER


@given(planted=wrong_leaves())
def test_a_missing_or_an_additional_field_is_found(planted: tuple[Exchange, Path_]) -> None:
    exchange, path = planted
    place = next(n for n in range(len(path) - 1, -1, -1) if isinstance(path[n], str))
    missing = copy.deepcopy(exchange.response)
    del at(missing, path[:place])[path[place]]
    assert verdict(exchange, missing) is CompareVerdict.DIFFER
    additional = with_leaf(exchange.response, (*path[:place], "more"), 0)
    assert verdict(exchange, additional) is CompareVerdict.DIFFER


def is_of_everything(exchange: Exchange, path: Path_) -> bool:
    entries = ENTRIES.get(exchange.header.request_api_key)
    return entries is not None and path == (entries[1],)


@given(planted=wrong_leaves(), data=st.data())
def test_a_missing_or_a_repeated_element_is_found(
    planted: tuple[Exchange, Path_], data: st.DataObject
) -> None:
    exchange, path = planted
    places = [n for n, key in enumerate(path) if isinstance(key, int)]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    elements = at(exchange.response, path[:place])
    for wrong in (elements[:-1], [*elements, elements[-1]]):
        if wrong == elements[:-1] and is_of_everything(exchange, path[:place]):
            continue
        changed = with_leaf(exchange.response, path[:place], wrong)
        assert verdict(exchange, changed) is CompareVerdict.DIFFER


@given(exchange=exchanges())
def test_masked_fields_are_ignored(exchange: Exchange) -> None:
    changed = exchange.response
    for path in leaves(exchange.response):
        if is_masked(path):
            changed = with_leaf(changed, path, "something else")
    assert verdict(exchange, changed) in AGREES


def test_the_masked_fields_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    sentence = text.split("Not compared are ")[1].split("\n\n")[0]
    assert set(re.findall("`(.*?)`", sentence)) == set(MASKED)


@pytest.mark.parametrize(
    ("field", "paths"), [("name", []), ("code", ["results[0].name", "results[1].name"])]
)
def test_a_list_whose_elements_lack_the_key_keeps_its_order(field: str, paths: list[str]) -> None:
    """Results without a key are in the order of the request, and a deviation has their number."""
    one, other = ({"results": [{"name": name} for name in names]} for names in ("ab", "ba"))
    outcome = compare(*(keyed(each, {"results": (field,)}) for each in (one, other)))
    assert [each.path for each in outcome.differences] == paths


def test_masking_leaves_everything_else() -> None:
    response = {"throttleTimeMs": 5, "topics": [{"errorMessage": "x", "errorCode": 3}], "port": 1}
    assert masked(response) == {
        "throttleTimeMs": 5,
        "topics": [{"errorMessage": "x", "errorCode": 3}],
    }


def lists_in(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, list):
        if len({msgspec.json.encode(part) for part in value}) > 1:
            yield path
        for place, part in enumerate(value):
            yield from lists_in(part, (*path, place))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from lists_in(part, (*path, key))


FREE = {
    "PRODUCE": {"responses", "partitionResponses"},
    "LIST_OFFSETS": {"topics", "partitions"},
    "METADATA": {"brokers", "topics", "partitions"},
    "CREATE_TOPICS": {"topics"},
    "DELETE_TOPICS": {"responses"},
    "DELETE_RECORDS": {"topics", "partitions"},
    "ADD_PARTITIONS_TO_TXN": {"resultsByTopicV3AndBelow", "resultsByPartition"},
    "CREATE_PARTITIONS": {"results"},
    "DELETE_GROUPS": {"results"},
    "DESCRIBE_TRANSACTIONS": {"topics"},
    "LIST_GROUPS": {"groups"},
    "LIST_TRANSACTIONS": {"transactionStates"},
}


def test_order_matters_unless_undefined_in_kafka() -> None:
    for exchange in one_of_each_kind():
        for path in lists_in(exchange.response):
            elements = at(exchange.response, path)
            changed = with_leaf(exchange.response, path, elements[::-1])
            is_free = path[-1] in FREE.get(exchange.api, ())
            if exchange.api == "OFFSET_FETCH" and requests_all(exchange.body()):
                is_free = path[-1] in ("topics", "partitions")
            assert (verdict(exchange, changed) in AGREES) is is_free, (exchange.id, path)


def requests_all(body: dict[str, Any]) -> bool:
    return any(group.get("topics") is None for group in body.get("groups", [body]))


LISTED = {"partitionIndex": 0, "errorCode": 0, "leaderEpoch": 0}
WITHIN = {"baseOffset": 10, "lastOffset": 14, "baseTimestamp": 100, "maxTimestamp": 140}


@pytest.mark.parametrize(
    ("offset", "timestamp", "expected"),
    [
        (10, 100, CompareVerdict.AGREE_INSIDE),
        (14, 140, CompareVerdict.AGREE_INSIDE),
        (12, 120, CompareVerdict.AGREE_INSIDE),
        (9, 120, CompareVerdict.DIFFER),
        (15, 120, CompareVerdict.DIFFER),
        (12, 99, CompareVerdict.DIFFER),
        (12, 141, CompareVerdict.DIFFER),
        (-1, -1, CompareVerdict.DIFFER),
    ],
)
def test_any_offset_and_time_inside_the_named_batch_is_accepted(
    offset: int, timestamp: int, expected: CompareVerdict
) -> None:
    recorded = {**LISTED, "offset": offset, "timestamp": timestamp}
    got = {**LISTED, "offset": 10, "timestamp": 100, "within": WITHIN}
    assert compare(recorded, got).verdict is expected


def test_a_truncated_batch_names_the_next_one() -> None:
    recorded = {**LISTED, "offset": 20, "timestamp": 200}
    more = {"baseOffset": 15, "lastOffset": 29, "baseTimestamp": 150, "maxTimestamp": 290}
    got = {**LISTED, "offset": 10, "timestamp": 100, "within": {**WITHIN, "orElse": more}}
    assert compare(recorded, got).verdict is CompareVerdict.AGREE_INSIDE


def test_other_fields_next_to_a_named_batch_are_compared() -> None:
    recorded = {**LISTED, "offset": 12, "timestamp": 120}
    got = {**LISTED, "leaderEpoch": 1, "offset": 10, "timestamp": 100, "within": WITHIN}
    assert compare(recorded, got).differences == [FieldDifference("leaderEpoch", 0, 1)]


def test_rejected_records_depend_on_the_bytes() -> None:
    word = "Compacted topic cannot accept message without key in topic partition t-0"
    recorded = {"index": 0, "errorCode": 87, "recordErrors": [], "errorMessage": "One or more"}
    recorded["recordErrors"] = [{"batchIndex": 1, "batchIndexErrorMessage": word}]
    body = {"topicData": [{"name": "t", "partitionData": [{"index": 0, "batches": [{}]}]}]}
    header = RequestHeader(0, 9, request_api_key_name="PRODUCE")

    def response(**partition: Any) -> dict[str, Any]:
        return {"responses": [{"name": "t", "partitionResponses": [recorded | partition]}]}

    exchange = Exchange(
        "f:1", 1, 2, 1, header, msgspec.Raw(msgspec.json.encode(body)), response(), True, "c", ""
    )
    (result,) = msgspec.json.decode(request_with_findings(exchange))["topicData"][0][
        "partitionData"
    ]
    assert result["recordsSeen"] == {"hasKeyless": True}
    words = {"recordErrors": [], "errorMessage": None}
    assert verdict(exchange, response(**words, refusedRecords={})) is CompareVerdict.AGREE_INSIDE
    assert verdict(exchange, response(**words)) is CompareVerdict.DIFFER
    assert verdict(exchange, response(errorCode=32, refusedRecords={})) is CompareVerdict.DIFFER


def test_a_difference_has_a_path() -> None:
    produce = next(e for e in one_of_each_kind() if e.api == "PRODUCE" and e.version < 13)
    topic = produce.response["responses"][0]
    partition = topic["partitionResponses"][0]
    path = ("responses", 0, "partitionResponses", 0, "errorCode")
    got = with_leaf(produce.response, path, 99)
    outcome = Comparer({produce.id: produce}).compare(produce.id, ModelResponse(response=got))
    where = f"responses[{topic['name']}].partitionResponses[{partition['index']}].errorCode"
    assert outcome == ComparisonOutcome(
        CompareVerdict.DIFFER, [FieldDifference(where, partition["errorCode"], 99)]
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("not built yet", CompareVerdict.UNSUPPORTED),
        ("unknown API", CompareVerdict.UNSUPPORTED),
        ("unsupported version", CompareVerdict.UNSUPPORTED),
        ("fault", CompareVerdict.DIFFER),
        ("wrong type", CompareVerdict.DIFFER),
    ],
)
def test_unbuilt_apis_are_unsupported_and_other_rejections_differ(
    reason: str, expected: CompareVerdict
) -> None:
    exchange = one_of_each_kind()[0]
    response = decode_response(
        msgspec.json.encode({"id": "x", "error": {"reason": reason, "detail": "..."}})
    )
    comparer = Comparer({exchange.id: exchange})
    assert comparer.compare(exchange.id, response).verdict is expected
    assert comparer.compare(exchange.id, None).verdict is CompareVerdict.DIFFER


def test_without_a_recorded_response_nothing_is_compared() -> None:
    exchange = msgspec.structs.replace(one_of_each_kind()[0], response=None, is_recorded=False)
    assert verdict(exchange, {}) is CompareVerdict.NOT_RECORDED


def test_a_null_response_is_not_compared() -> None:
    exchange = msgspec.structs.replace(one_of_each_kind()[0], response=None)
    assert verdict(exchange, None) is CompareVerdict.SILENT
    assert verdict(exchange, {}) is CompareVerdict.DIFFER


def fetched_marker() -> tuple[Exchange, Path_, dict[str, Any]]:
    """A Fetch that answers with the end marker of a commit, where it is, and the machine's own."""
    for exchange in read(CAPTURES).exchanges:
        if exchange.api != "FETCH" or exchange.response is None:
            continue
        for path in leaves(exchange.response):
            if path and path[-1] == "isControl" and at(exchange.response, path):
                recorded = at(exchange.response, path[:-1])
                marker = EndMarker(is_commit=True, coordinator_epoch=0)
                who = recorded["producerId"], recorded["producerEpoch"]
                made = control_batches.end_batch(*who, marker, recorded["baseOffset"], START)
                made.partition_leader_epoch = recorded["partitionLeaderEpoch"]
                at_time = control_batches.end_batch(*who, marker, 0, recorded["maxTimestamp"])
                if at_time.crc == recorded["crc"]:
                    return exchange, path[:-1], render(made, 0)
    raise AssertionError("no commit in the captures")


def test_an_end_marker_is_compared_as_if_written_at_the_recorded_time() -> None:
    exchange, path, ours = fetched_marker()
    assert verdict(exchange, with_leaf(exchange.response, path, ours)) in AGREES
    wrong: dict[str, Any] = {
        "endMarker": {"isCommit": False, "coordinatorEpoch": 0},
        "producerEpoch": ours["producerEpoch"] + 1,
        "baseOffset": ours["baseOffset"] + 1,
        "sizeInBytes": 77,
    }
    for name, value in wrong.items():
        got = with_leaf(exchange.response, path, {**ours, name: value})
        assert verdict(exchange, got) is CompareVerdict.DIFFER, name
    other = {**ours, "endMarker": {"isCommit": True, "coordinatorEpoch": 1}}
    assert verdict(exchange, with_leaf(exchange.response, path, other)) is CompareVerdict.DIFFER


def test_dead_letters_are_compared_as_if_written_at_the_recorded_time() -> None:
    """The checksum is of Kafka 4.4.0, for a record rejected in a topic of an exam."""
    headers = {
        "topic": "brokertwin-exam-ffc89d-012-a",
        "partition": "1",
        "offset": "0",
        "group": "brokertwin-exam-ffc89d-012-g",
        "delivery.count": "1",
        "message": "Offset rejected by client.",
    }
    packed = dead_letters.encoded(0, headers)
    batch = Batch(0, 0, partition_leader_epoch=0, size_in_bytes=290, record_count=1, packed=packed)
    ours = render(batch, 0)
    then = 1795989790040
    recorded = ours | {"baseTimestamp": then, "maxTimestamp": then, "crc": 2384444875}
    del recorded["packed"]
    outcome = compare(recorded, ours)
    assert outcome.verdict is CompareVerdict.AGREE
    assert outcome.used == {Freedom.MARKER_TIME}
    other = base64.b64encode(packed[:-1] + b"x").decode()
    for wrong in ({"packed": other}, {"sizeInBytes": 291}, {"lastOffsetDelta": 1}):
        assert compare(recorded, ours | wrong).verdict is CompareVerdict.DIFFER, wrong


def test_captures_are_there() -> None:
    assert [file for file in map(Path, CAPTURES) if not file.stat().st_size] == []
    assert len(CAPTURES) == 26


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("topics[0].errorCode", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("errorCode", "(absent)", None),
        ("errorCode", True, None),
        ("offset", 3, None),
        ("errorCode", 9_999, None),
    ],
)
def test_an_error_code_that_differs_has_its_name(
    path: str, value: object, name: str | None
) -> None:
    assert report.error_name(path, value) == name
