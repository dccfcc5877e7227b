"""Fetch, ListOffsets and Produce compared with a real broker."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

from brokertwin.protocol.primitives import uuid_of
from brokertwin.testing.exam.batches import shown
from tests.gateway.test_cleaner_like_kafka import Side
from tests.support.batches import numbered
from tests.support.gateways import running_gateway
from tests.support.goldens import KEEPING, WRITTEN_MS, Tape, real_broker, tape
from tests.support.patience import wait_until

RECORDS = 3
EPOCHS = (-2, -1, 0, 1, 2**31 - 1)
OFFSETS = (-1, 0, 2, RECORDS, RECORDS + 1)
FETCH_VERSIONS = (9, 12, 13, 16)
SPECIAL = (-1, -2, -3, -4, -5, -6, -7)
LIST_OFFSETS_VERSIONS = (1, 4, 6, 7, 8, 9, 10, 11)
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
Sides = tuple[Side, Side]
pytestmark = pytest.mark.compares


@pytest.fixture(scope="module")
def module_sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sides, Tape]]:
    """Start ours and a real broker, each with a topic with records and an empty one."""
    with ExitStack() as stack:
        recording = stack.enter_context(tape("logs/fetches"))
        real = stack.enter_context(real_broker(tmp_path_factory.mktemp("fetches") / "broker"))
        address = stack.enter_context(running_gateway(KEEPING)).addresses[1]
        both = Side(*address), Side(*real, track=recording)
        for side in both:
            stack.callback(side.conn.close)
            for name in ("filled", "empty", "staying"):
                side.create(name, {})
            for at in range(RECORDS):
                side.write("filled", ([f"k{at}"], ["v"]), WRITTEN_MS + at)
            side.write("staying", (["k"], ["v"]), WRITTEN_MS)
            wait_until(lambda side=side: side.looked_up("empty", -1)["errorCode"] == 0)
        yield both, recording


@pytest.fixture
def sides(module_sides: tuple[Sides, Tape], request: pytest.FixtureRequest) -> Sides:
    """Both sides; each test has its own track of real responses."""
    (ours, real), recording = module_sides
    return ours, real.on(recording.track(request.node.name))


def topic_id(side: Side, name: str) -> Any:
    body = {"topics": [{"topicId": NO_ID, "name": name}]}
    body |= {"allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": False}
    return side.call("Metadata", 12, body)["topics"][0]["topicId"]


def fetch(side: Side, version: int, topics: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20}
    body |= {"isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1, "rackId": ""}
    response = side.call(
        "Fetch", version, {**body, "forgottenTopicsData": [], **fields} | {"topics": topics}
    )
    return dict(response)


def requested(
    version: int, name: str, ident: Any, offset: int = 0, **fields: Any
) -> dict[str, Any]:
    partition = {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": offset}
    partition |= {"lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": 1 << 20}
    named = {"topicId": ident} if version >= 13 else {"topic": name}
    return {**named, "partitions": [partition | fields]}


def plain(response: dict[str, Any], names: dict[Any, str]) -> dict[str, Any]:
    result = dict(response)
    result["sessionId"] = "some" if result.get("sessionId") else "none"
    result["responses"] = [
        {
            "topic": names.get(each.get("topicId"), each.get("topic")),
            "partitions": [
                {**p, "records": len(shown(p["records"] or b""))} for p in each["partitions"]
            ],
        }
        for each in result["responses"]
    ]
    return result


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_with_every_pair_of_epochs_at_every_offset(sides: Sides, version: int) -> None:
    codes = set()
    for offset, current, last in product(OFFSETS, EPOCHS, EPOCHS if version >= 12 else (-1,)):
        epochs = {"currentLeaderEpoch": current, "lastFetchedEpoch": last}
        found = []
        for side in sides:
            ident = topic_id(side, "filled")
            topics = [requested(version, "filled", ident, offset, **epochs)]
            found.append(plain(fetch(side, version, topics), {ident: "filled"}))
        assert found[0] == found[1], (version, offset, current, last)
        codes.add(found[0]["responses"][0]["partitions"][0]["errorCode"])
    assert {0, 1, 75} <= codes  # valid ones, out of range, and of a future epoch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("level", [0, 1])
def test_fetch_with_negative_size_limits_and_without_a_topic_name(
    sides: Sides, version: int, level: int
) -> None:
    """A batch is not cut in the middle; the gateway omits a partial one, as documented."""
    results: tuple[list[Any], list[Any]] = ([], [])
    for side, responses in zip(sides, results, strict=True):
        ident = topic_id(side, "filled")
        names = {ident: "filled", NO_ID: ""}
        for offset, own in product((0, 2, RECORDS, RECORDS + 1), (-(2**31), -1, 0, 1, 1 << 20)):
            wanted = requested(version, "filled", ident, offset, partitionMaxBytes=own)
            for most in (-1, 0, 1 << 20):
                response = fetch(side, version, [wanted], maxBytes=most, isolationLevel=level)
                responses.append(plain(response, names))
        other = topic_id(side, "staying")
        pair = [requested(version, "filled", ident), requested(version, "staying", other)]
        pair[1]["partitions"][0]["partitionMaxBytes"] = -1
        responses.append(plain(fetch(side, version, pair), {**names, other: "staying"}))
        responses.append(plain(fetch(side, version, [requested(version, "", NO_ID)]), names))
    assert results[0] == results[1]
    partitions = [p for each in results[1] for t in each["responses"] for p in t["partitions"]]
    assert {each["errorCode"] for each in partitions} == {0, 1, -1, 100 if version >= 13 else 3}


SLICE = (2**31 - 1) // 8
"""Size of each of the eight slices of session ids in a broker's cache."""


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_with_unknown_session_ids(sides: Sides, version: int) -> None:
    ids = (1, -1, 1 - SLICE, -SLICE, -(2**31), 8 * SLICE - 1, 8 * SLICE, 2**31 - 1)
    codes = set()
    for session_id, epoch in product(ids, (-(2**31), -2, -1, 0, 1)):
        found = []
        for side in sides:
            ident = topic_id(side, "filled")
            topics, session = [requested(version, "filled", ident)], {"sessionId": session_id}
            response = fetch(side, version, topics, **session, sessionEpoch=epoch)
            is_echoed = response["sessionId"] == session_id
            found.append((is_echoed, plain(response, {ident: "filled"})))
        assert found[0] == found[1], (session_id, epoch)
        codes.add(found[0][1]["errorCode"])
    assert codes == {0, -1, 70}


@pytest.mark.parametrize("version", [12, 16])
def test_fetch_session_reports_a_deleted_topic(sides: Sides, version: int) -> None:
    name = f"going-{version}"
    results = [list(session_of_deleted(side, version, name)) for side in sides]
    for (what, one), (_, other) in zip(*results, strict=True):
        assert one["responses"] == other["responses"], what
        assert one == other, what
    codes = [
        partition["errorCode"]
        for _, response in results[0]
        for topic in response["responses"]
        for partition in topic["partitions"]
    ]
    assert set(codes) - {0}, "the deletion is told of"


def session_of_deleted(side: Side, version: int, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a session's responses before and after a topic's deletion, and its re-creation."""
    side.create(name, {})
    side.write(name, (["k"], ["v"]), WRITTEN_MS)
    ids = {each: topic_id(side, each) for each in (name, "staying")}
    names = {ident: each for each, ident in ids.items()}
    topics = [requested(version, each, ident, 1) for each, ident in ids.items()]
    first = fetch(side, version, topics, sessionEpoch=0)
    session, epoch = first["sessionId"], 0
    yield "begun", plain(first, names)

    def go_on(topics: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        nonlocal epoch
        epoch += 1
        found = fetch(side, version, topics, sessionId=session, sessionEpoch=epoch, **fields)
        return plain(found, names)

    yield "nothing new", go_on([])
    body = {"topics": [{"name": name, "topicId": NO_ID}], "timeoutMs": 10_000}
    assert side.call("DeleteTopics", 6, body)["responses"][0]["errorCode"] == 0
    wait_until(lambda: side.looked_up(name, -1)["errorCode"] == 3)
    yield "deleted", go_on([])
    yield "told again", go_on([])
    yield "asked for again", go_on([topics[0]])
    side.create(name, {})
    wait_until(lambda: side.looked_up(name, -1)["errorCode"] == 0)
    yield "there again", go_on([])
    named = {"topicId": ids[name]} if version >= 13 else {"topic": name}
    yield "forgotten", go_on([], forgottenTopicsData=[{**named, "partitions": [0]}])
    yield "without it", go_on([])


@pytest.mark.parametrize("version", [4, 7, 12, 13, 16])
def test_unknown_isolation_levels(sides: Sides, version: int) -> None:
    for level, name in product((-1, 0, 1, 2, 3), ("filled", "missing")):
        found = []
        for side in sides:
            ident = topic_id(side, "filled") if name == "filled" else NO_ID
            topics = [requested(version, name, ident)]
            fields = {"isolationLevel": level, "sessionEpoch": 0}
            found.append(plain(fetch(side, version, topics, **fields), {ident: name}))
            partition = {"partitionIndex": 0, "timestamp": -1, "currentLeaderEpoch": -1}
            body = {"replicaId": -1, "isolationLevel": level, "timeoutMs": 1000}
            body |= {"topics": [{"name": name, "partitions": [partition]}]}
            listed = side.call("ListOffsets", 7, body)
            found[-1]["listed"] = listed["topics"]
        assert found[0] == found[1], (version, level, name)


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS)
def test_list_offsets_with_special_timestamps_in_every_version(sides: Sides, version: int) -> None:
    """Also tiered and earliest-local ones (-4, -5, -6): no broker here has tiered storage."""
    epochs = (-2, -1, 0, 1) if version >= 4 else (-1,)
    for name, at, epoch in product(("filled", "empty", "missing"), SPECIAL, epochs):
        partition = {"partitionIndex": 0, "timestamp": at, "currentLeaderEpoch": epoch}
        body = {"replicaId": -1, "isolationLevel": 0, "timeoutMs": 1000}
        body |= {"topics": [{"name": name, "partitions": [partition]}]}
        topics = [side.call("ListOffsets", version, body)["topics"] for side in sides]
        for each in topics:
            shown = each[0]["partitions"][0]
            shown["timestamp"] = shown["timestamp"] >= 0  # each side has its own time
        assert topics[0] == topics[1], (version, name, at, epoch)


NAMELESS = [
    [("zero", 0), ("zero", 0)],
    [("zero", 0), ("zero", 1)],
    [("zero", 0), ("filled", 0)],
    [("zero", 0), ("nowhere", 0)],
    [("nowhere", 0), ("zero", 0)],
    [("zero", 0), ("filled", 9)],
    [("filled", 9), ("zero", 0), ("filled", 0)],
]
"""Topics with a partition of each; zero is no topic's id."""


@pytest.mark.parametrize("version", [13, 18])
@pytest.mark.parametrize("named", NAMELESS)
def test_fetch_with_a_zero_topic_id(
    sides: Sides, version: int, named: list[tuple[str, int]]
) -> None:
    """Kafka fails if another partition follows it; sessions continue."""
    results = [list(with_zeros(side, version, named)) for side in sides]
    assert results[0] == results[1]


def with_zeros(side: Side, version: int, named: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Fetch without a session, in a new one, and in one of another topic."""
    ids = {"filled": topic_id(side, "filled"), "staying": topic_id(side, "staying")}
    ids |= {"zero": NO_ID, "nowhere": uuid_of((1 << 70).to_bytes(16, "big"))}
    names = {ident: each for each, ident in ids.items()}
    topics = [requested(version, each, ids[each], partition=at) for each, at in named]
    for epoch in (-1, 0):
        yield plain(fetch(side, version, topics, sessionEpoch=epoch), names)
    session = fetch(side, version, [requested(version, "staying", ids["staying"])], sessionEpoch=0)
    for epoch, more in enumerate((topics, [], []), 1):
        fields = {"sessionId": session["sessionId"], "sessionEpoch": epoch}
        yield plain(fetch(side, version, more, **fields), names)


@pytest.mark.parametrize("is_one_topic", [True, False])
def test_produce_that_names_a_partition_twice(sides: Sides, is_one_topic: bool) -> None:
    """Records are in the order of the appends; the order of partitions may differ."""
    name = f"twice-{is_one_topic}"
    one, two = (numbered(1, time=WRITTEN_MS, values=[text]) for text in (b"one", b"two"))
    sets = {"1": one, "2": two, "empty": b"", "cut": one[:-3], "both": one + two}
    sets["crc"] = one[:-1] + bytes([one[-1] ^ 1])
    walked = []
    for side in sides:
        side.create(name, {})
        wait_until(lambda side=side: side.looked_up(name, -1)["errorCode"] == 0)
        responses = []
        for first, second in product(sets, sets):
            parts = [{"index": 0, "records": sets[each]} for each in (first, second)]
            data = [parts] if is_one_topic else [[each] for each in parts]
            topics = [{"name": name, "partitionData": each} for each in data]
            body = {"transactionalId": None, "acks": -1, "timeoutMs": 5000, "topicData": topics}
            results = side.call("Produce", 11, body)["responses"]
            responses += [(first, second, topic["partitionResponses"]) for topic in results]
        read = fetch(side, 12, [requested(12, name, None)])["responses"][0]["partitions"][0]
        batches = shown(read["records"])
        responses.append([(each["baseOffset"], each["records"]) for each in batches])
        walked.append(responses)
    for ours, theirs in zip(*walked, strict=True):
        assert ours == theirs
