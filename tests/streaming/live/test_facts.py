"""Facts of clusters: event time, the span that a log covers, transactional ids and places."""

import msgspec
import pytest

from brokertwin.recordings.history.brokers import Absence
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.holes import MISSED_MIN
from brokertwin.recordings.history.replication import LeadingParts
from brokertwin.streaming.live import facts as facts_module
from brokertwin.streaming.live.facts import (
    ALIVE_MS,
    DELAYS_KEPT,
    EXPIRING,
    FACTS_KEPT_MS,
    LOST_MS,
    REFRESHED_MS,
    ClusterFacts,
    FactRow,
    learned,
)
from brokertwin.streaming.live.kinds import parts_for_replicas

NOW = 1_800_000_000_000


def read(facts: ClusterFacts, source: str, *spans: tuple[int, int, int], now: int = NOW) -> None:
    """Learn from one line for each broker, first ms and last ms."""
    exchanges = [
        RecordedExchange(
            RecordedRequest(f"{source}:1", first, last, broker, "c", "", "x", "FETCH", 13), {}, {}
        )
        for broker, first, last in spans
    ]
    for row in learned("shop", source, exchanges, facts, now):
        facts.add(encoded(row))


def encoded(row: FactRow) -> FactRow:
    return row._replace(value=msgspec.json.decode(msgspec.json.encode(row.value)))


def test_event_time_is_that_of_the_log_that_is_behind() -> None:
    facts = ClusterFacts()
    assert facts.event_time(NOW) == 0
    read(facts, "requests/0", (1, 100, 900), (2, 100, 400))
    assert facts.event_time(NOW) == 400
    read(facts, "requests/0", (1, 900, 2_000), now=NOW + ALIVE_MS)
    assert facts.event_time(NOW + ALIVE_MS) == 400
    read(facts, "requests/0", (1, 2_000, 3_000), now=NOW + ALIVE_MS + 1)
    assert facts.event_time(NOW + ALIVE_MS + 1) == 3_000, "no agent ships the log of broker 2"


def test_a_log_in_two_partitions_is_covered_where_both_are_read() -> None:
    facts = ClusterFacts()
    read(facts, "requests/0", (1, 100, 900))
    read(facts, "requests/1", (1, 200, 500))
    assert facts.known.is_covered(1, 200, 500)
    assert not facts.known.is_covered(1, 100, 500)
    assert not facts.known.is_covered(1, 200, 900)


def test_facts_are_written_once_and_in_any_order() -> None:
    body = {
        "groupId": "billing",
        "transactionalId": "tx",
        "producerId": 7,
        "producerEpoch": 0,
        "topics": [{"name": "orders", "partitions": [{"partitionIndex": 3}]}],
    }
    line = RecordedRequest("x:1", 1, 2, 1, "c", "", "x", "TXN_OFFSET_COMMIT", 3)
    rows = list(learned("shop", "x/0", [RecordedExchange(line, body, {})], ClusterFacts(), NOW))
    facts, reverse = ClusterFacts(), ClusterFacts()
    for row in [*rows, *rows]:
        facts.add(encoded(row))
    for row in reversed(rows):
        reverse.add(encoded(row))
    assert facts == reverse
    assert facts.known.producers == {7: "tx"}
    assert [*facts.known.places[7]] == [("billing", "orders", 3)]
    again = learned("shop", "x/0", [RecordedExchange(line, body, {})], facts, NOW)
    assert [each.what for each in again] == ["span"]


def heartbeat(broker: int, time: int, **fields: bool) -> RecordedExchange:
    line = RecordedRequest(f"x:{time}", time, time, 100, "", "", "x", "BROKER_HEARTBEAT", 1)
    body = {"brokerId": broker, **fields}
    return RecordedExchange(line, body, {}, taken=float(time), made=float(time), is_internal=True)


def test_states_of_brokers_grow_over_micro_batches() -> None:
    beats = [heartbeat(1, time) for time in range(1_000, 61_000, 2_000)]
    beats += [heartbeat(1, 61_000, wantShutDown=True), heartbeat(1, 90_000)]
    whole, rows = KnownFacts(), list[FactRow]()
    for each in beats:
        whole.learn(each)
    facts = ClusterFacts()
    for begin in range(0, len(beats), 3):
        for row in learned("shop", "x/0", beats[begin : begin + 3], facts, NOW):
            rows.append(encoded(row))
            facts.add(rows[-1])
    assert facts.known.presences == whole.presences
    assert len(facts.known.presences[1].spans) == 3
    compacted = ClusterFacts()
    for row in {(each.what, each.key): each for each in rows}.values():
        compacted.add(row)
    assert compacted.known.presences == whole.presences
    assert not [each for each in learned("shop", "x/0", beats, facts, NOW) if each.what != "span"]


def fetch(time: int, busy_ms: float, every_ms: int = 1_000) -> RecordedExchange:
    """A follower's fetch; its session has one each `every_ms`."""
    name = "broker-2-fetcher-0"
    line = RecordedRequest(f"x:{time}", time, time, 1, name, "", "c", "FETCH", 17)
    body = {"replicaId": 2, "sessionId": 7, "sessionEpoch": 1 + time // every_ms}
    stages = {"taken": float(time), "made": float(time), "busy_ms": busy_ms}
    return RecordedExchange(line, body, {}, **stages)


def test_a_stretch_without_the_epochs_of_a_session_is_a_hole() -> None:
    facts = ClusterFacts()
    seconds = [*range(10, 30), *range(60, 70), 71, 69, 70, *range(72, 80)]
    for begin in range(0, len(seconds), 4):
        part = [fetch(NOW + 1_000 * each, 0.0) for each in seconds[begin : begin + 4]]
        for row in learned("shop", "x/0", part, facts, NOW):
            facts.add(encoded(row))
    assert facts.known.holes == [(NOW + 29_000, NOW + 60_000)]
    assert [facts.known.part_of(NOW + 1_000 * each) for each in (29, 45, 60)] == [0, -1, 1]


@pytest.mark.parametrize(("missed", "is_hole"), [(MISSED_MIN - 1, False), (MISSED_MIN, True)])
def test_a_jump_of_few_epochs_is_no_hole(missed: int, is_hole: bool) -> None:
    facts = ClusterFacts()
    times = [NOW + LOST_MS * each for each in (0, 1, 2, 3 + missed, 4 + missed)]
    for time in times:
        for row in learned("shop", "x/0", [fetch(time, 0.0, LOST_MS)], facts, NOW):
            facts.add(encoded(row))
    assert bool(facts.known.holes) is is_hole


def test_a_log_that_comes_in_two_partitions_shows_no_holes() -> None:
    """Each has a part of the epochs."""
    facts = ClusterFacts()
    for second in range(0, 400, 20):
        source = f"x/{second // 20 % 2}"
        part = [fetch(NOW + 1_000 * each, 0.0) for each in range(second, second + 20)]
        for row in learned("shop", source, part, facts, NOW):
            facts.add(encoded(row))
    assert facts.known.holes == []


def test_fetches_and_busy_seconds_are_facts_with_a_bounded_number_of_keys() -> None:
    facts, keys = ClusterFacts(), set[tuple[str, str]]()
    for second in range(2 * DELAYS_KEPT):
        for row in learned("shop", "x/0", [fetch(1_000 * second, 7.0)], facts, NOW):
            facts.add(encoded(row))
            keys.add((row.what, row.key))
    last = 1_000 * (2 * DELAYS_KEPT - 1)
    assert facts.known.last_fetch(1, 2, "c") == last
    assert facts.known.delay_ms(1, last) == 7.0
    assert len(keys) == DELAYS_KEPT + len({"fetch", "session", "span"})


def test_min_insync_replicas_of_a_created_topic_are_a_fact() -> None:
    config = {"name": "min.insync.replicas", "value": "2"}
    body = {"topics": [{"name": "orders", "configs": [config]}]}
    line = RecordedRequest("x:1", 1, 2, 1, "c", "", "x", "CREATE_TOPICS", 7)
    facts = ClusterFacts()
    for row in learned("shop", "x/0", [RecordedExchange(line, body, {})], facts, NOW):
        facts.add(encoded(row))
    assert facts.known.min_isr_of("orders") == 2


def shown_at(time: int) -> list[RecordedExchange]:
    """Exchanges that show a fact of each kind that expires."""
    commit = {
        "groupId": "billing",
        "transactionalId": "tx",
        "producerId": 7,
        "producerEpoch": 0,
        "topics": [{"name": "orders", "partitions": [{"partitionIndex": 3}]}],
    }
    topics = {"topics": [{"name": "orders", "topicId": "T"}]}
    line = RecordedRequest("x:1", time, time, 1, "c", "", "x", "TXN_OFFSET_COMMIT", 3)
    return [
        RecordedExchange(line, commit, {}),
        RecordedExchange(msgspec.structs.replace(line, api="METADATA"), {}, topics),
        heartbeat(1, time),
        fetch(time, 0.0, REFRESHED_MS),
    ]


def test_facts_expire_when_no_exchange_has_shown_them_for_long_enough() -> None:
    facts, last = ClusterFacts(), 0
    for day in range(20):
        last = NOW + day * REFRESHED_MS
        rows = list(learned("shop", "x/0", shown_at(last), facts, last))
        for row in rows:
            facts.add(encoded(row))
        assert {each.what for each in rows} >= EXPIRING, "each is written again every day"
        for what, key in facts.expired():
            facts.forget(what, key)
        of_days = FACTS_KEPT_MS // REFRESHED_MS + 1
        assert len(facts.shown) <= 5 + of_days, "a broker's state has a time in the key"
    assert [*facts.known.places[7]] == [("billing", "orders", 3)]
    later = last + FACTS_KEPT_MS + 1
    read(facts, "x/0", (1, later, later), now=later)
    for what, key in facts.expired():
        facts.forget(what, key)
    known = facts.known
    assert {what for what, _ in facts.shown} == {"presence"}
    assert not (known.topics or known.producers or known.places or known.fetched)
    assert known.is_covered(1, NOW, later), "the span of a log does not expire"


def test_a_broker_that_is_down_stays_fenced() -> None:
    facts, later = ClusterFacts(), NOW + 3 * FACTS_KEPT_MS
    beats = [heartbeat(1, NOW), heartbeat(1, NOW + 2_000, wantShutDown=True)]
    for now, seen in ((NOW, beats), (later, [heartbeat(2, later)])):
        for row in learned("shop", "x/0", seen, facts, now):
            facts.add(encoded(row))
    assert facts.expired() == [("presence", f"1 {float(NOW)}")]
    facts.forget(*facts.expired()[0])
    assert facts.known.absence(1, later - 1_000, later) is Absence.CERTAIN


def test_facts_do_not_expire_before_the_log_that_is_behind_is_read() -> None:
    """The micro-batch takes longer than a log is waited for."""
    facts, ahead = ClusterFacts(), NOW + 2 * FACTS_KEPT_MS
    facts.add(FactRow("shop", "topic", "T", "orders", NOW))
    read(facts, "requests/0", (1, NOW, ahead), (2, NOW, NOW))
    assert not facts.expired()
    read(facts, "requests/0", (1, NOW, ahead), now=NOW + ALIVE_MS + 1)
    assert facts.expired() == [("topic", "T")], "no agent ships the log of broker 2"


def test_a_deletion_is_known_as_long_as_a_group_may_have_offsets() -> None:
    line = RecordedRequest("x:1", NOW, NOW, 1, "c", "", "x", "DELETE_TOPICS", 6)
    deleted = {"responses": [{"name": "old", "topicId": "O", "errorCode": 0}]}
    facts, later = ClusterFacts(), NOW + 2 * FACTS_KEPT_MS
    for row in learned("shop", "x/0", [RecordedExchange(line, {}, deleted)], facts, NOW):
        facts.add(row)
    read(facts, "x/0", (1, later, later), now=later)
    for what, key in facts.expired():
        facts.forget(what, key)
    assert not facts.shown
    assert facts.known.was_deleted("old", NOW, later)


def test_of_too_many_facts_those_shown_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "FACTS_MAX", 3)
    facts = ClusterFacts()
    for number in range(5):
        facts.add(FactRow("shop", "topic", f"T{number}", f"orders-{number}", NOW + number))
        forgotten = facts.expired()
        for what, key in forgotten:
            facts.forget(what, key)
        assert forgotten == ([("topic", f"T{number - 3}")] if number >= 3 else [])
    assert [*facts.known.topics] == ["T2", "T3", "T4"]


def test_a_former_topic_of_facts_is_judged_by_the_settings_it_has() -> None:
    facts = ClusterFacts()
    facts.add(FactRow("shop", "min-isr", "orders", 1, NOW))
    (judged,) = [row for row in learned("shop", "x/0", [], facts, NOW) if row.what == "judged"]
    facts.add(judged)
    assert facts.judges_replicas(NOW + 1)


def test_all_tasks_of_the_first_micro_batch_with_a_controller_leave_the_same_parts_out() -> None:
    facts = ClusterFacts()
    for now in (NOW, NOW + 10, NOW + 20):
        read(facts, "x/0", (1, now, now), now=now)
        before = parts_for_replicas(facts, {1}, now)
        for row in learned("shop", "y/0", [heartbeat(1, now)] if now > NOW else [], facts, now):
            facts.add(encoded(row))
        after = parts_for_replicas(facts, {1}, now)
        assert type(before) is type(after), "whatever is written in the micro-batch"
        assert isinstance(after, LeadingParts) == (now < NOW + 20)
    assert facts.judged_at == NOW + 10
