"""Responses, errors and dead letters are counted from the bytes of the rows that leave."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokertwin.protocol.errors import Error
from brokertwin.state.core import outputs
from brokertwin.state.core.dead_letters import refused_event
from brokertwin.state.core.events import Reason, Refusal
from brokertwin.state.core.outputs import Output, Position
from brokertwin.streaming.job import tallies
from brokertwin.streaming.job.tallies import Tallies
from tests.support.machine import Bench

ERRORS = list(Error)
TEXTS = st.sampled_from(
    ['"errorCode":3,', '\\"errorCode":3', '"requestApiKey":0', "errorCode", "", '"response":', "ü"]
)
NAMES = TEXTS.filter(lambda name: name != "errorCode")
"""Names of other fields: an error code is a known number, as in `ERROR_CODES`."""
LEAVES = st.integers(-5, 5) | TEXTS | st.none() | st.booleans()
ERROR_CODES = st.fixed_dictionaries({"errorCode": st.sampled_from(ERRORS).map(int)})
BODIES = st.recursive(
    ERROR_CODES | st.dictionaries(NAMES, LEAVES, max_size=2),
    lambda below: st.dictionaries(
        st.sampled_from(["topics", "errorMessage", '"errorCode"']),
        below | st.lists(below, max_size=3) | LEAVES,
        max_size=3,
    ),
    max_leaves=8,
)


def response(api: int, body: object, client: str = "c") -> Output:
    header = {"requestApiKey": api, "requestApiKeyName": "NAME", "clientId": client}
    document = {"id": "1", "requestHeader": header, "response": body}
    return Output(outputs.RESPONSES, 0, None, msgspec.json.encode(document), "1")


def codes_in(body: Any) -> Iterator[int]:
    if isinstance(body, list):
        for each in body:
            yield from codes_in(each)
    elif isinstance(body, dict):
        for name, value in body.items():
            if name == "errorCode":
                yield value
            else:
                yield from codes_in(value)


def tallied(*rows: Output) -> Tallies:
    counts: dict[str, int] = {}
    for row in rows:
        if row.topic in tallies.TOPICS:
            tallies.count(row.topic, [row.value], counts)
    return tallies.of(counts)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 3]), BODIES, TEXTS), max_size=4))
def test_byte_scans_equal_decoded_fields(
    responses: list[tuple[int, Any, str]],
) -> None:
    names = {0: "PRODUCE", 1: "FETCH", 3: "METADATA"}
    expected: dict[str, Counter[str]] = {}
    for api, body, _ in responses:
        for code in codes_in(body):
            if code:
                expected.setdefault(names[api], Counter())[Error(code).name] += 1
    found = tallied(*(response(*reply) for reply in responses))
    assert found.answers == Counter(names[api] for api, _, _ in responses)
    assert found.errors == expected
    assert found.reasons == {}


def test_a_cells_own_rows_are_counted_each_once() -> None:
    bench = Bench(auto_create_topics_enable=False)
    bench.topic("orders")
    bench.request("METADATA", 12, {"topics": [{"name": "nowhere"}, {"name": "orders"}]})
    bench.request("HEARTBEAT", 4, {"groupId": "g", "generationId": 1, "memberId": "m"})
    found = tallied(*bench.rows)
    assert found.answers["METADATA"] == found.answers["HEARTBEAT"] == 1
    assert found.errors["METADATA"] == {"UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert found.errors["HEARTBEAT"] == {"NOT_COORDINATOR": 1}
    assert sum(found.answers.values()) == len(bench.responses)


def test_a_dead_letter_is_counted_by_reason_without_a_response() -> None:
    bench = Bench()
    header = b'{"requestApiKey":1,"requestApiVersion":4,"correlationId":1,"clientId":"c"}'
    document = b'{"id":"1","replyTo":0,"requestHeader":' + header + b"}"
    refusal = Refusal(Reason.NOT_BUILT, 'a text with "reason":"none" and "errorCode":5')
    rows = refused_event(bench.settings, document, Position(0, 0), refusal)
    assert [row.topic for row in rows] == [outputs.DEAD_LETTERS, outputs.RESPONSES]
    assert b'"requestApiKey":1' in (rows[1].value or b"")
    assert tallied(*rows) == Tallies({}, {}, {"not built yet": 1})


def test_rows_of_other_topics_and_tombstones_are_skipped() -> None:
    value = response(1, {"errorCode": 5}).value
    rows = [Output(outputs.RECORDS, None, None, value, "1"), replace(response(1, {}), value=None)]
    assert tallied(*rows) == Tallies({}, {}, {})
