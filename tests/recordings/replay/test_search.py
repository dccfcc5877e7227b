"""The search for a schedule: races of real brokers, and its limits."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay.comparison import (
    CompareVerdict,
    ComparisonOutcome,
    FieldDifference,
)
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import NOTICED_MS, Recording, read
from brokertwin.recordings.replay.report import agreeing, compare_all
from brokertwin.recordings.replay.schedule import DeliverySchedule
from brokertwin.recordings.replay.search import SearchLimits
from brokertwin.recordings.replay.timing import Tolerances, slowest_ms
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.events import Kind
from tests.support.races import (
    START,
    TOPIC,
    TimedRequest,
    create,
    fetch,
    list_offsets,
    metadata,
    order_of,
    produce,
    recorded,
    replayed,
)
from tests.support.synthetic_recording import exchange

CAPTURES = Path(__file__).parents[2] / "captures"


def verdicts(outcomes: dict[str, ComparisonOutcome]) -> set[CompareVerdict]:
    return {outcome.verdict for outcome in outcomes.values()}


def untimely(expected: str, got: str) -> ComparisonOutcome:
    return ComparisonOutcome(
        CompareVerdict.DIFFER, [FieldDifference("responseTime", expected, got)]
    )


def with_body(recording: Recording, name: str, body: dict[str, Any]) -> Recording:
    """Return the recording with another request and the same response."""
    request = msgspec.Raw(msgspec.json.encode(body))
    return Recording(
        [
            msgspec.structs.replace(one, request=request) if one.id == name else one
            for one in recording.exchanges
        ],
        [],
    )


def searched(
    requests: list[TimedRequest], handled: list[tuple[str, int]]
) -> tuple[DeliverySchedule, set[CompareVerdict]]:
    planned, outcomes = replayed(recorded(requests, handled))
    return planned.schedule, verdicts(outcomes)


def test_without_a_race_requests_are_handled_as_they_arrive() -> None:
    requests = [create(), produce("a", 10, 3, "p1"), produce("b", 20, 3, "p2")]
    schedule, found = searched(requests, [("create", 0), ("a", 10), ("b", 20)])
    assert found == {CompareVerdict.AGREE}
    assert order_of(schedule) == ["create", "a", "b"]
    assert not (schedule.moved | schedule.held | schedule.late | schedule.lost | schedule.queued)


def test_overlapping_requests_may_be_reordered() -> None:
    requests = [create(), produce("a", 10, 9, "p1"), produce("b", 11, 3, "p2")]
    schedule, found = searched(requests, [("create", 0), ("b", 11), ("a", 12)])
    assert found == {CompareVerdict.AGREE}
    assert schedule.moved == {"a"}
    assert order_of(schedule) == ["create", "b", "a"]


def test_requests_that_do_not_overlap_are_never_reordered() -> None:
    requests = [create(), produce("a", 10, 3, "p1"), produce("b", 20, 3, "p2")]
    schedule, found = searched(requests, [("create", 0), ("b", 5), ("a", 6)])
    assert CompareVerdict.DIFFER in found
    assert schedule.unexplained == {"a", "b"}
    assert order_of(schedule) == ["create", "a", "b"]


def test_a_connection_is_never_reordered() -> None:
    requests = [create(), produce("a", 10, 9, "p1"), produce("b", 11, 9, "p1")]
    schedule, found = searched(requests, [("create", 0), ("b", 11), ("a", 12)])
    assert CompareVerdict.DIFFER in found
    assert order_of(schedule) == ["create", "a", "b"]


def test_several_requests_may_follow_one() -> None:
    requests = [
        create(),
        produce("a", 10, 20, "p1"),
        produce("b", 11, 20, "p2"),
        produce("c", 12, 20, "p3"),
        list_offsets("end", 13, 2, "reader"),
    ]
    handled = [("create", 0), ("end", 13), ("a", 14), ("b", 15), ("c", 16)]
    schedule, found = searched(requests, handled)
    assert found == {CompareVerdict.AGREE}
    assert schedule.moved == {"a", "b", "c"}


def test_a_long_poll_slightly_after_its_trigger_is_held() -> None:
    requests = [
        create(),
        fetch("poll", 10, 30, "reader", max_wait=500),
        produce("a", 20, 3, "p1"),
        produce("b", 22, 3, "p2"),
    ]
    schedule, found = searched(requests, [("create", 0), ("a", 20), ("b", 22), ("poll", 23)])
    assert found == {CompareVerdict.AGREE}
    assert schedule.held == {"poll"}
    completion = next(step for step in schedule.steps if step.kind is Kind.COMPLETE)
    assert START + 22 <= completion.time <= START + 40


def test_a_long_poll_may_end_slightly_after_its_deadline() -> None:
    requests = [create(), fetch("poll", 10, 55, "reader", max_wait=50), produce("a", 62, 2, "p1")]
    schedule, found = searched(requests, [("create", 0), ("a", 10), ("poll", 62)])
    assert found == {CompareVerdict.AGREE}
    assert schedule.held == {"poll"}


def test_a_long_poll_needs_its_condition_or_deadline() -> None:
    requests = [create(), fetch("poll", 10, 5, "reader", max_wait=500), produce("a", 30, 2, "p1")]
    recording = recorded(requests, [("create", 0), ("poll", 10), ("a", 30)])
    planned, outcomes = replayed(recording)
    assert outcomes["poll"] == untimely("after 5 ms", "after 20 ms")
    assert planned.schedule.unexplained == {"poll"}


def test_an_append_may_follow_the_deadline() -> None:
    requests = [create(), fetch("poll", 10, 53, "reader", max_wait=50), produce("a", 59, 4, "p1")]
    schedule, found = searched(requests, [("create", 0), ("poll", 10), ("a", 61)])
    assert found == {CompareVerdict.AGREE}
    assert schedule.moved == {"a"}


def test_a_request_after_a_long_poll_is_queued() -> None:
    requests = [
        create(),
        fetch("poll", 10, 52, "reader", max_wait=50),
        list_offsets("end", 20, 44, "reader"),
        produce("a", 61, 1, "p1"),
    ]
    schedule, found = searched(requests, [("create", 0), ("poll", 10), ("a", 61), ("end", 63)])
    assert found == {CompareVerdict.AGREE}
    assert schedule.queued == {"end"}


def test_a_change_of_metadata_may_be_read_late() -> None:
    requests = [create(), metadata("first", 10), metadata("second", 20), metadata("third", 40)]
    handled = [("first", -2), ("second", -1), ("create", 0), ("third", 40)]
    schedule, found = searched(requests, handled)
    assert found == {CompareVerdict.AGREE}
    assert schedule.late == {"create"}
    assert not schedule.held


def test_late_changes_of_metadata_are_read_one_by_one() -> None:
    topic = {"name": "other", "numPartitions": 1, "replicationFactor": 1}
    other = create(at=1, connection="c2")._replace(
        name="other", body={"topics": [topic], "timeoutMs": 30000}
    )
    both = {"topics": [{"name": TOPIC}, {"name": "other"}], "allowAutoTopicCreation": False}
    requests = [create(), other, metadata("first", 10), metadata("second", 20)]
    requests += [
        metadata(name, at)._replace(body=both) for name, at in (("both", 30), ("last", 40))
    ]
    handled = [("first", -2), ("create", 0), ("second", 1), ("both", 2), ("other", 3), ("last", 40)]
    schedule, found = searched(requests, handled)
    assert found == {CompareVerdict.AGREE}
    assert schedule.late == {"create", "other"}


def refused(code: int, at: int) -> dict[str, ComparisonOutcome]:
    """A first ListOffsets to a new topic is refused; the second is accepted."""
    requests = [
        create(),
        list_offsets("early", at, 1, "c1"),
        list_offsets("again", at + 9, 1, "c1"),
    ]
    recording = recorded(requests, [("create", 0), ("early", at), ("again", at + 9)])
    early = next(each for each in recording.exchanges if each.id == "early")
    part = {
        "partitionIndex": 0,
        "errorCode": code,
        "timestamp": -1,
        "offset": -1,
        "leaderEpoch": -1,
    }
    response = {**early.response, "topics": [{"name": TOPIC, "partitions": [part]}]}
    changed = msgspec.structs.replace(early, response=response)
    exchanges = [changed if each is early else each for each in recording.exchanges]
    return replayed(Recording(exchanges, []))[1]


@pytest.mark.parametrize(
    ("code", "at", "verdict"),
    [
        (6, 900, CompareVerdict.AGREE),
        (6, 1100, CompareVerdict.DIFFER),
        (3, 900, CompareVerdict.DIFFER),
    ],
)
def test_the_log_of_a_new_partition_may_be_opened_late(
    code: int, at: int, verdict: CompareVerdict
) -> None:
    outcome = refused(code, at)["early"]
    assert outcome.verdict is verdict
    assert (Freedom.UNREADY in outcome.used) is (verdict is CompareVerdict.AGREE)


def test_a_change_of_metadata_is_not_read_later_than_the_limit() -> None:
    requests = [create(), metadata("first", 10), metadata("second", 1000)]
    recording = recorded(requests, [("first", -2), ("second", -1), ("create", 0)])
    planned, outcomes = replayed(recording, SearchLimits(Tolerances(late=500)))
    assert outcomes["first"].verdict is CompareVerdict.AGREE
    assert planned.schedule.unexplained == {"second"}


def heartbeat(name: str, at: int, takes: int, epoch: int) -> TimedRequest:
    body = {
        "groupId": "g",
        "memberId": "member",
        "memberEpoch": epoch,
        "rebalanceTimeoutMs": 300_000,
        "subscribedTopicNames": [],
        "subscribedTopicRegex": "^or.*",
        "topicPartitions": [],
    }
    return TimedRequest(name, "CONSUMER_GROUP_HEARTBEAT", 1, body, at, takes, "member")


@pytest.mark.parametrize(
    ("joined", "beat", "flipped", "epoch"),
    [
        pytest.param(60, 10_010, {"second": False}, 1, id="not-yet"),
        pytest.param(1, 9_990, {"second": True}, 2, id="already"),
        pytest.param(1, 10_010, {}, 2, id="as-it-arrived"),
    ],
)
def test_a_heartbeat_close_to_the_minimum_interval_may_resolve_regexes_or_not(
    joined: int, beat: int, flipped: dict[str, bool], epoch: int
) -> None:
    """The interval counts from a time that Kafka reads after the join has arrived."""
    requests = [
        *[
            TimedRequest(
                "find", "FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["g"]}, -5_000
            )
        ],
        *[heartbeat("join", 0, 70, 0), create(5_000), heartbeat("second", beat, 30, 1)],
        heartbeat("third", 15_000, 1, 1),
    ]
    times = {"find": -5_000, "join": joined, "create": 5_000, "third": 15_000}
    times["second"] = beat if beat > 10_000 else 10_015
    recording = recorded(requests, sorted(times.items(), key=lambda each: each[1]))
    third = next(one for one in recording.exchanges if one.id == "third")
    assert third.response["memberEpoch"] == epoch
    planned, outcomes = replayed(recording)
    assert verdicts(outcomes) == {CompareVerdict.AGREE}
    assert planned.schedule.resolves == flipped
    used = {name for name, outcome in outcomes.items() if Freedom.REGEXES in outcome.used}
    assert used == ({"third"} if flipped else set())


def test_a_heartbeat_far_from_the_minimum_interval_resolves_regexes_on_time() -> None:
    requests = [
        *[
            TimedRequest(
                "find", "FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["g"]}, -5_000
            )
        ],
        *[heartbeat("join", 0, 70, 0), create(5_000), heartbeat("second", 10_400, 30, 1)],
        heartbeat("third", 15_000, 1, 1),
    ]
    handled = [("find", -5_000), ("join", 500), ("create", 5_000), ("second", 10_400)]
    planned, outcomes = replayed(recorded(requests, [*handled, ("third", 15_000)]))
    assert outcomes["third"].verdict is CompareVerdict.DIFFER
    assert planned.schedule.resolves == {}


def test_markers_may_be_written_late() -> None:
    """An EndTxn that is repeated meets 51, a late Produce is appended before the marker."""
    recording = read([CAPTURES / "raw_produce_errors.jsonl.gz"])
    planned, outcomes = replayed(recording)
    assert verdicts(outcomes) == {CompareVerdict.AGREE, CompareVerdict.AGREE_INSIDE}
    late = {exchange.id: exchange for exchange in recording.exchanges}
    assert {late[each].api for each in planned.schedule.late} == {"END_TXN"}
    assert len(planned.schedule.late) == 3


def test_a_poll_completed_too_early_differs() -> None:
    """The recording is changed: the broker waited for 500 ms; the request allows less."""
    requests = [create(), fetch("poll", 10, 500, "reader", max_wait=500)]
    recording = recorded(requests, [("create", 0), ("poll", 10)])
    assert verdicts(replayed(recording)[1]) == {CompareVerdict.AGREE}
    for max_wait, verdict in (
        (460, CompareVerdict.AGREE),
        (440, CompareVerdict.DIFFER),
        (0, CompareVerdict.DIFFER),
    ):
        body = fetch("poll", 10, 500, "reader", max_wait).body
        _, outcomes = replayed(with_body(recording, "poll", body))
        assert outcomes["poll"].verdict is verdict, max_wait
    assert outcomes["poll"] == untimely("after 500 ms", "after 0 ms")


def test_slow_responses_are_no_waits() -> None:
    """A ListOffsets never waits: the broker was slow."""
    slow = [create(), list_offsets("end", 10, 400, "reader")]
    assert searched(slow, [("create", 0), ("end", 10)])[1] == {CompareVerdict.AGREE}


@pytest.mark.parametrize(
    ("brokers", "acks", "takes", "verdict"),
    [
        ((1, 2), -1, 90, "agree"),
        ((1, 2), -1, 110, "differ"),
        ((1, 2), 1, 400, "agree"),
        ((1,), -1, 400, "agree"),
    ],
)
def test_a_produce_may_wait_for_replicas(
    brokers: tuple[int, ...], acks: int, takes: int, verdict: str
) -> None:
    """With acks -1 and a single replica there is no wait."""
    requests = [create(), produce("a", 10, takes, "p1", acks=acks)]
    _, outcomes = replayed(recorded(requests, [("create", 0), ("a", 10)], brokers))
    assert outcomes["a"].verdict == verdict


def test_handling_is_bounded_after_arrival() -> None:
    """Its response shows an append 40 ms or 60 ms after it."""
    for later, verdict in ((40, CompareVerdict.AGREE), (60, CompareVerdict.DIFFER)):
        at = 10 + later
        requests = [create(), list_offsets("end", 10, 90, "reader"), produce("a", at, 2, "p1")]
        _, outcomes = replayed(recorded(requests, [("create", 0), ("a", at), ("end", at + 3)]))
        assert outcomes["end"].verdict is verdict


def test_an_immediate_poll_is_not_held() -> None:
    requests = [create(), fetch("poll", 10, 33, "reader", max_wait=500), produce("a", 40, 2, "p1")]
    recording = recorded(requests, [("create", 0), ("poll", 10), ("a", 40)])
    assert verdicts(replayed(recording)[1]) == {CompareVerdict.AGREE}
    at_once = fetch("poll", 10, 33, "reader", max_wait=0).body
    _, outcomes = replayed(with_body(recording, "poll", at_once))
    assert outcomes["poll"].verdict is CompareVerdict.DIFFER


def test_held_waits_are_bounded() -> None:
    """Its deadline is 40 ms or 60 ms before the append in its response."""
    for later, verdict in ((40, CompareVerdict.AGREE), (60, CompareVerdict.DIFFER)):
        at = 60 + later
        poll = fetch("poll", 10, 55 + later, "reader", max_wait=50)
        requests = [create(), poll, produce("a", at, 2, "p1")]
        _, outcomes = replayed(recorded(requests, [("create", 0), ("a", 10), ("poll", at)]))
        assert outcomes["poll"].verdict is verdict


def test_whole_second_logs_get_an_extra_second() -> None:
    """A wait of half a second that is logged as one or three seconds."""
    for reported, verdict in ((1000, "agree"), (3000, "differ")):
        requests = [create(takes=1000), fetch("poll", 1000, reported, "reader", max_wait=500)]
        recording = recorded(requests, [("create", 0), ("poll", 1000)])
        assert replayed(recording)[1]["poll"].verdict == verdict, reported


def test_tolerances_grow_for_slower_brokers() -> None:
    requests = [create(), produce("a", 10, 180, "p1", acks=-1)]
    recording = recorded(requests, [("create", 0), ("a", 10)], (1, 2))
    assert verdicts(replayed(recording)[1]) == {CompareVerdict.AGREE, CompareVerdict.DIFFER}
    slower = SearchLimits(Tolerances().scaled(2))
    assert verdicts(replayed(recording, slower)[1]) == {CompareVerdict.AGREE}


def test_trailing_requests_may_be_lost_from_a_rejected_one() -> None:
    requests = [
        create(),
        produce("a", 210, 1, "p1", acks=0),
        produce("refused", 211, 1, "p1", acks=0, topic="none such"),
        produce("b", 212, 1, "p1", acks=0),
        produce("c", 220, 1, "p2"),
    ]
    planned, outcomes = replayed(recorded(requests, [("create", 0), ("a", 210), ("c", 220)]))
    assert planned.schedule.lost == {"refused", "b"}
    assert order_of(planned.schedule) == ["create", "a", "c"]
    assert {name: str(outcome.verdict) for name, outcome in outcomes.items()} == {
        "create": "agree",
        "a": "says nothing",
        "refused": "lost",
        "b": "lost",
        "c": "agree",
    }


def test_accepted_requests_are_not_lost() -> None:
    requests = [
        create(),
        produce("a", 210, 1, "p1", acks=0),
        produce("b", 211, 1, "p1", acks=0),
        produce("c", 220, 1, "p2"),
    ]
    planned, outcomes = replayed(recorded(requests, [("create", 0), ("a", 210), ("c", 220)]))
    assert outcomes["c"].verdict is CompareVerdict.DIFFER
    assert not planned.schedule.lost


def test_a_broker_may_not_have_opened_a_new_topics_logs() -> None:
    for at, is_lost in ((100, True), (200, False)):
        requests = [
            create(),
            metadata("shown", 10),
            produce("a", at, 1, "p1", acks=0),
            produce("b", at + 20, 1, "p2"),
        ]
        handled = [("create", 0), ("shown", 10), ("b", at + 20)]
        planned, _ = replayed(recorded(requests, handled))
        assert planned.schedule.lost == ({"a"} if is_lost else frozenset())


def test_a_connection_that_the_machine_closes_and_the_broker_kept_is_a_difference() -> None:
    requests = [
        create(),
        produce("refused", 10, 1, "p1", acks=0, topic="none such"),
        metadata("after", 20, connection="p1"),
    ]
    _, outcomes = replayed(recorded(requests, [("create", 0), ("refused", 10), ("after", 20)]))
    closed = FieldDifference("connection", "stays open", "is closed")
    assert outcomes["refused"] == ComparisonOutcome(CompareVerdict.DIFFER, [closed])


def test_a_request_is_not_lost_from_the_middle_of_a_connection() -> None:
    requests = [
        create(),
        produce("a", 10, 1, "p1", acks=0),
        produce("b", 11, 1, "p1"),
        produce("c", 20, 1, "p2"),
    ]
    schedule, found = searched(requests, [("create", 0), ("b", 11), ("c", 20)])
    assert CompareVerdict.DIFFER in found
    assert not schedule.lost


@pytest.mark.parametrize(
    "limits", [SearchLimits(moments_per_exchange=0), SearchLimits(moved_together=0)]
)
def test_the_search_is_bounded(limits: SearchLimits) -> None:
    requests = [create(), produce("a", 10, 9, "p1"), list_offsets("end", 11, 3, "p2")]
    recording = recorded(requests, [("create", 0), ("end", 11), ("a", 12)])
    planned, outcomes = replayed(recording, limits)
    assert outcomes["end"].verdict is CompareVerdict.DIFFER
    assert planned.schedule.unexplained == {"end"}
    assert planned.schedule.is_exhausted is (limits.moments_per_exchange == 0)


def test_moments_too_far_back_are_not_walked_again() -> None:
    requests = [create(), produce("a", 10, 30, "p1"), list_offsets("end", 38, 3, "p2")]
    requests += [metadata(f"m{at}", at) for at in range(11, 37)]
    handled = [("create", 0), *((f"m{at}", at) for at in range(11, 37)), ("end", 38), ("a", 39)]
    recording = recorded(requests, handled)
    assert verdicts(replayed(recording)[1]) == {CompareVerdict.AGREE}
    near = SearchLimits(lookback_moments=10)
    assert replayed(recording, near)[0].schedule.unexplained == {"end"}


def sessions_of(history: Recording) -> tuple[DeliverySchedule, int]:
    settings, _ = parse(properties.read(CAPTURES / "broker.properties"))
    planned = plan(history, "recorded", settings, is_compared=True)
    responses = planned.schedule.responses or {}
    compared = compare_all(history.exchanges, planned.schedule, responses, frozenset())
    return planned.schedule, agreeing(compared)


def test_a_disconnect_releases_acquired_records() -> None:
    history = read([CAPTURES / "share_sessions.jsonl.gz"])
    assert len(history.ends) == 7
    assert sessions_of(history)[1] == len(history.exchanges)
    assert sessions_of(history._replace(ends=[]))[1] == len(history.exchanges) - 4


def test_a_broker_may_notice_late_that_a_connection_has_ended() -> None:
    history = read([CAPTURES / "share_sessions.jsonl.gz"])
    first = history.ends[0]
    empty = next(each for each in reversed(history.exchanges) if each.end <= first.time + 1)
    early = msgspec.structs.replace(first, time=empty.time, end=empty.time + NOTICED_MS)
    schedule, agree = sessions_of(history._replace(ends=[early, *history.ends[1:]]))
    assert agree == len(history.exchanges)
    steps = [step.exchange_id for step in schedule.steps]
    assert steps.index(empty.id) < steps.index(first.id), "the other got nothing yet"
    assert first.id not in schedule.moved, "no request was moved"


@pytest.mark.parametrize(
    ("api", "body", "brokers", "slowest"),
    [
        ("LIST_OFFSETS", {}, 1, 900),
        ("FETCH", {"maxWaitMs": 500}, 1, 10),
        ("PRODUCE", {"acks": -1}, 1, 900),
        ("PRODUCE", {"acks": -1}, 2, 10),
        ("PRODUCE", {"acks": 1}, 2, 900),
        ("OFFSET_COMMIT", {}, 1, 900),
        ("OFFSET_COMMIT", {}, 2, 10),
    ],
)
def test_the_slowest_response_is_of_a_request_that_does_not_wait(
    api: str, body: dict[str, int], brokers: int, slowest: int
) -> None:
    """A long poll waits, and with replicas what is written waits for them."""
    listed = {"brokers": [{"nodeId": node} for node in range(brokers)]}
    asked = exchange(0, "a", "METADATA", {}, listed, end=10)
    assert slowest_ms([asked, exchange(100, "a", api, body, {}, end=1_000)]) == slowest
