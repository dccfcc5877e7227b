"""Expiry: rows are dropped by the event time of their cluster, whenever the query runs."""

from typing import Any

import msgspec
import pytest

from brokertwin.recordings.history.entity import EntityKey
from brokertwin.streaming.live import operator
from brokertwin.streaming.live.entity import BEHIND_ALARM_MS
from brokertwin.streaming.live.halves import CONNECTION, KEPT_MS, Connection
from brokertwin.streaming.live.kinds import HOUR_MS
from brokertwin.streaming.live.reading import HalfExchange, TopicLine
from tests.streaming.live.test_operator import KROXYLICIOUS, kinds, lines_of, wanted
from tests.support.live import CLUSTER, START_MS, TRIGGER_MS, LiveTopics

BEGIN = START_MS
MINUTE_MS = 60_000
SECOND_MS = 1_000
both_modes = pytest.mark.parametrize("is_bucket", [False, True])


def fetch(session: int, epoch: int, time: int, cluster: str = CLUSTER) -> TopicLine:
    header = {
        "requestApiKey": 1,
        "requestApiVersion": 13,
        "correlationId": epoch,
        "clientId": f"consumer-{session}",
    }
    request = {
        "replicaId": -1,
        "sessionId": session if epoch else 0,
        "sessionEpoch": epoch,
        "topics": [],
        "forgottenTopicsData": [],
    }
    response = {"throttleTimeMs": 0, "errorCode": 0, "sessionId": session, "responses": []}
    document = {
        "id": f"{session}-{epoch}",
        "broker": 1,
        "time": BEGIN + time,
        "connection": f"c{session}",
        "requestHeader": header,
        "request": request,
        "response": response,
        "responseTime": 1.0,
    }
    return TopicLine(f"{cluster}/0", time, msgspec.json.encode(document), cluster)


def epochs(topics: LiveTopics, cluster: str = CLUSTER) -> dict[int, int]:
    rows = topics.table("sessions")
    return {each["session_id"]: each["epoch"] for each in rows if each["cluster"] == cluster}


def opened(is_bucket: bool) -> LiveTopics:
    topics = LiveTopics(is_bucket)
    topics.batch([fetch(1, 0, 0), fetch(2, 0, 0)])
    topics.batch([fetch(2, 1, 5 * SECOND_MS)])
    topics.end()
    assert epochs(topics).keys() == {1, 2}
    return topics


@both_modes
def test_a_query_that_was_stopped_drops_no_row_that_its_backlog_uses(is_bucket: bool) -> None:
    topics = opened(is_bucket)
    before = epochs(topics)
    topics.now += 3 * HOUR_MS
    topics.batch([fetch(2, 2, 10 * SECOND_MS)])
    assert epochs(topics)[1] == before[1], "it is not in the first micro-batch"
    topics.batch([fetch(1, 1, HOUR_MS - MINUTE_MS), fetch(2, 3, HOUR_MS)])
    topics.end()
    assert epochs(topics) == {session: epoch + 1 for session, epoch in {1: 1, 2: 3}.items()}
    topics.batch([fetch(2, 4, 2 * HOUR_MS)])
    topics.now += 2 * HOUR_MS
    topics.batch([fetch(2, 5, 3 * HOUR_MS)])
    assert epochs(topics).keys() == {2}, "its cluster has not used it for an hour"


@both_modes
def test_a_row_is_dropped_after_its_hour_while_the_query_runs(is_bucket: bool) -> None:
    """Its hour ends 50 seconds later in the log, which has become slower."""
    topics = opened(is_bucket)
    for number in range(2, 2 * HOUR_MS // MINUTE_MS):
        topics.now += MINUTE_MS - TRIGGER_MS
        time = topics.now - START_MS - 50 * SECOND_MS
        topics.batch([fetch(2, number, time)])
        if 1 not in epochs(topics):
            break
    assert HOUR_MS <= time <= HOUR_MS + 2 * MINUTE_MS


@both_modes
def test_a_silent_cluster_keeps_its_rows_and_looks_at_them_once_an_hour(is_bucket: bool) -> None:
    topics = opened(is_bucket)
    topics.idle_calls = 0
    for number in range(6 * HOUR_MS // MINUTE_MS):
        topics.now += MINUTE_MS - TRIGGER_MS
        topics.batch([fetch(7, number, number * MINUTE_MS, "bank")])
    assert epochs(topics).keys() == {1, 2}
    assert epochs(topics, "bank").keys() == {7}
    assert 0 < topics.idle_calls <= 6 * 3
    topics.batch([fetch(2, 2, 7 * HOUR_MS)])
    topics.now += 2 * HOUR_MS
    topics.batch([fetch(2, 3, 7 * HOUR_MS + 1)])
    assert epochs(topics).keys() == {2}


def group_request(api: int, time: int, body: dict[str, Any], response: dict[str, Any]) -> TopicLine:
    fields = {
        "requestApiKey": api,
        "requestApiVersion": {12: 4, 68: 1}.get(api, 9),
        "clientId": "a",
    }
    document = {
        "id": f"{time}",
        "broker": 1,
        "time": BEGIN + time,
        "connection": "c",
        "requestHeader": {**fields, "correlationId": time},
        "request": body,
        "response": {"throttleTimeMs": 0, "errorCode": 0, **response},
        "responseTime": 1.0,
    }
    return TopicLine(f"{CLUSTER}/0", time, msgspec.json.encode(document), CLUSTER)


@both_modes
def test_a_member_that_died_is_not_counted_after_its_session(is_bucket: bool) -> None:
    topics, of = LiveTopics(is_bucket), {"groupId": "billing", "memberId": "m"}
    metadata = {"brokers": [{"nodeId": 1, "host": "h", "port": 1}], "topics": []}
    joined = {"generationId": 1, "memberId": "m", "leader": "m", "members": [{"memberId": "m"}]}
    topics.batch(
        [
            group_request(3, 0, {"topics": []}, metadata),
            group_request(11, 1, {**of, "sessionTimeoutMs": 6_000}, joined),
            group_request(12, SECOND_MS, {**of, "generationId": 1}, {}),
        ]
    )
    topics.end()
    assert [each["members"] for each in topics.table("groups")] == [1]
    topics.batch([fetch(1, 0, MINUTE_MS)])
    topics.end()
    assert [each["members"] for each in topics.table("groups")] == [0]


@both_modes
def test_a_member_of_kip_848_without_heartbeats_is_counted_as_silent(is_bucket: bool) -> None:
    topics, of = LiveTopics(is_bucket), {"groupId": "billing", "memberEpoch": 0}
    beaten = {"memberEpoch": 1, "heartbeatIntervalMs": 5_000}
    topics.batch(
        [
            group_request(68, number, {**of, "memberId": name}, {**beaten, "memberId": name})
            for number, name in enumerate(("a", "b"))
        ]
    )
    topics.batch([group_request(68, MINUTE_MS, {**of, "memberId": "b", "memberEpoch": 1}, beaten)])
    topics.end()
    assert [(e["members"], e["silent"]) for e in topics.table("groups")] == [(2, 1)]
    topics.batch([fetch(1, 0, 2 * MINUTE_MS)])
    topics.end()
    assert [(e["members"], e["silent"]) for e in topics.table("groups")] == [(2, 2)]


@both_modes
def test_a_number_that_no_field_has_damages_its_line_alone(is_bucket: bool) -> None:
    topics, lines = LiveTopics(is_bucket), []
    for number in (2**64, 7):
        body = {"groupId": "billing", "memberId": "a", "generationId": 1, "new": "NUMBER"}
        line = group_request(12, number % 100, body, {"errorCode": 0})
        value = line.value.replace(b'"NUMBER"', str(number).encode())
        lines.append(line._replace(value=value))
    topics.batch(lines)
    topics.end()
    assert topics.counts["damaged"] == 1
    assert [each["group_id"] for each in topics.table("groups")] == ["billing"]


def test_a_request_of_kroxylicious_waits_for_its_response_in_the_backlog() -> None:
    topics = LiveTopics()
    for line in lines_of(KROXYLICIOUS / "json.log.gz", 1):
        topics.now += HOUR_MS
        topics.batch([line])
    topics.end()
    assert kinds(topics) == wanted("kroxylicious")


def test_a_connection_is_over_when_no_request_waits_any_longer() -> None:
    half = HalfExchange("log", 1, BEGIN, "s", b"{}", 1, "", 1)
    stored = msgspec.msgpack.encode([half])
    assert not Connection(stored).is_over(BEGIN + KEPT_MS - 1)
    assert Connection(stored).is_over(BEGIN + KEPT_MS)
    assert Connection(None).is_over(BEGIN)
    key = EntityKey(CONNECTION, "s")
    handled = operator.handle(CLUSTER, key, stored, [], {}, BEGIN + KEPT_MS)
    assert handled.stored is None, "without any exchange, the query's time decides"


@both_modes
def test_rows_expire_by_event_time_while_a_long_backlog_is_read(is_bucket: bool) -> None:
    """Two days are read in 48 minutes: sessions of an hour are dropped meanwhile."""
    topics, most = LiveTopics(is_bucket), 0
    for number in range(288):
        at = number * 10 * MINUTE_MS - 72 * HOUR_MS
        topics.batch([fetch(number, 0, at), fetch(number, 1, at + SECOND_MS)])
        most = max(most, len(epochs(topics)))
    an_hour, an_alarm = HOUR_MS // (10 * MINUTE_MS), BEHIND_ALARM_MS // TRIGGER_MS
    assert an_hour < most <= 2 * (an_hour + an_alarm)
