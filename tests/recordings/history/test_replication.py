"""The request logs of a real three-broker cluster."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.recordings.history import partition_moments
from brokertwin.recordings.history.brokers import Absence, BrokerPresence
from brokertwin.recordings.history.exchange import KnownFacts
from brokertwin.recordings.history.findings import (
    DifferenceCause,
    InSyncNamed,
    LeftEarly,
    WatermarkDifference,
    WatermarkSample,
)
from brokertwin.recordings.history.replicas import PartitionReplicas
from brokertwin.recordings.observed import checkpoints
from brokertwin.recordings.observed.watching import ObservedReplication
from brokertwin.state.logs import checkpoint_files
from tests.support.examples import examples
from tests.support.observed import adopted, agreed, exchanges, observed, snapshots
from tests.support.requestlogs import RUNS, STOPS

AGREED = {"steady": (1524, 1525), "follower_stop": (586, 590), "leader_kill": (545, 549)}
"""High watermarks equal to the rule, of all that leaders reported."""


@pytest.mark.parametrize("run", RUNS)
def test_rule_gives_the_reported_high_watermarks(run: str) -> None:
    observer = observed(exchanges(run))
    equal, reported = AGREED[run]
    assert agreed(observer) == equal
    assert agreed(observer) + len(observer.differences) == reported
    assert {each.why for each in observer.differences} == {DifferenceCause.RACE}
    assert not adopted(observer)
    assert not observer.unread


def last_before(observer: ObservedReplication, topic: str, time: int) -> dict[int, WatermarkSample]:
    return {s.partition: s for s in observer.samples if s.topic == topic and s.time <= time}


@pytest.mark.parametrize("run", RUNS)
def test_state_at_each_snapshot_equals_that_of_the_brokers(run: str) -> None:
    observer = observed(exchanges(run))
    compared: Counter[str] = Counter()
    for snapshot in snapshots(run):
        for name, shown in snapshot["partitions"].items():
            topic, _, number = name.rpartition("-")
            known = last_before(observer, topic, snapshot["time"]).get(int(number))
            if known is None or shown["leader"] < 0:
                continue
            compared["leader"] += (known.leader, known.leader_epoch) == (
                shown["leader"],
                shown["leaderEpoch"],
            )
            compared["isr"] += sorted(shown["isr"]) == list(known.isr)
            compared["all"] += 1
    assert compared["leader"] == compared["isr"] == compared["all"] >= 8


@pytest.mark.parametrize("run", RUNS)
def test_checkpoint_entries_were_derived(run: str) -> None:
    observer = observed(exchanges(run))
    found = [
        (int(name.removeprefix("broker-")), checkpoint_files.parse(text))
        for snapshot in snapshots(run)
        for name, text in snapshot["checkpoints"].items()
    ]
    checked = checkpoints.check(observer.samples, observer.nameless, found)
    assert len(checked) >= 45
    assert [entry for entry in checked if entry.why] == []


def test_impossible_checkpoint_entry_is_found() -> None:
    observer = observed(exchanges("steady"))
    entries = {("steady", 0): 10_000, ("steady", 1): 0, ("nobody", 0): 3}
    checked = checkpoints.check(observer.samples, [], [(1, entries)])
    assert [each.why for each in checked] == [
        "beyond the recording",
        "",
        "the partition is not in the recording",
    ]


@pytest.mark.parametrize(
    ("run", "count"), [("steady", 0), ("follower_stop", 19), ("leader_kill", 3)]
)
def test_in_sync_sets_change_by_the_rules(run: str, count: int) -> None:
    observer = observed(exchanges(run), lag_time_max_ms=3000)
    assert [change for change in observer.isr_changes if change.why] == []
    assert len(observer.isr_changes) == count


def test_early_removal_from_the_in_sync_set_is_found() -> None:
    observer = observed(exchanges("follower_stop"), lag_time_max_ms=30_000)
    whys = [change.why for change in observer.isr_changes if change.why is not None]
    assert {type(why) for why in whys} == {LeftEarly}


def always_enough(known: PartitionReplicas, _: int, without: Collection[int] = ()) -> int | None:
    return CANDIDATE(known, 1, without)


def from_the_append(known: PartitionReplicas, *rest: Any) -> int | None:
    return known.leader_end if known.isr else CANDIDATE(known, *rest)


def all_replicas(known: PartitionReplicas, min_isr: int, _: Collection[int] = ()) -> int | None:
    former, known.isr = known.isr, known.replicas
    try:
        return CANDIDATE(known, min_isr)
    finally:
        known.isr = former


CANDIDATE = PartitionReplicas.candidate


@pytest.mark.parametrize(
    "broken", [always_enough, from_the_append, all_replicas], ids=lambda rule: rule.__name__
)
def test_broken_rule_is_found(
    broken: Callable[..., int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartitionReplicas, "candidate", broken)
    observer = observed(exchanges("follower_stop"))
    assert [each for each in observer.differences if each.why is DifferenceCause.UNEXPLAINED]


def test_follower_credited_with_sent_records_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sent(known: PartitionReplicas, follower: int, offset: int, *at: float | str) -> bool:
        return FETCHED(known, follower, offset + 1, *at)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionReplicas, "fetched", sent)
    observer = observed(exchanges("steady"))
    assert [each for each in observer.differences if each.why is DifferenceCause.UNEXPLAINED]


FETCHED = PartitionReplicas.fetched


def unexplained(found: ObservedReplication) -> list[WatermarkDifference]:
    return [each for each in found.differences if each.why is DifferenceCause.UNEXPLAINED]


def test_shutdown_and_fencing_leave_no_high_watermark_unexplained() -> None:
    found = observed(exchanges(STOPS))
    assert unexplained(found) == []
    assert (agreed(found), adopted(found)) == (461, 1)
    assert [change for change in found.isr_changes if change.why] == []
    assert found.missing == []


def test_removals_by_the_controller_are_shown() -> None:
    found = observed(exchanges(STOPS)).isr_samples
    removals = {
        (each.topic, each.partition, each.isr)
        for each in found
        if isinstance(each.why, InSyncNamed) and each.why.removed
    }
    assert {("orders", 0, (1, 2)), ("orders", 0, (2, 3))} <= removals


@pytest.mark.parametrize(
    ("broker", "missing"),
    [(1, "broker 1"), (2, "broker 2"), (3, "broker 3"), (100, "the controller")],
)
def test_missing_log_leaves_facts_unknown_and_nothing_unexplained(
    broker: int, missing: str
) -> None:
    found = observed([each for each in exchanges(STOPS) if each.line.broker != broker])
    assert unexplained(found) == []
    assert found.missing == [missing]
    assert agreed(found) > 90
    led = [each for each in found.partitions.values() if each.known.led_by == broker]
    assert not any(map(found.has_leader_log, led))


@pytest.mark.parametrize(
    ("run", "lag_time_max_ms", "count"),
    [("busy_start", 3_000, 176), ("busy_fencing", 10_000, 2687)],
)
def test_busy_brokers_leave_nothing_unexplained(run: str, lag_time_max_ms: int, count: int) -> None:
    """Brokers learn of changed in-sync sets seconds late, and fetches wait for their threads."""
    whole = exchanges(run)
    parts = [[each for each in whole if each.line.broker != broker] for broker in (1, 2, 3)]
    for part in (whole, *parts):
        found = observed(part, lag_time_max_ms, min_isr=2)
        assert unexplained(found) == []
        assert [change for change in found.isr_changes if change.why] == []
    assert agreed(observed(whole, lag_time_max_ms, min_isr=2)) == count


def never_absent(*_: object) -> Absence:
    return Absence.NO


def test_rule_that_ignores_the_controller_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerPresence, "absence", never_absent)
    assert len(unexplained(observed(exchanges(STOPS)))) > 20


@settings(max_examples=examples(25))
@given(st.sampled_from((*RUNS, STOPS)), st.floats(0, 1), st.floats(0, 1))
def test_truncated_log_gives_no_false_verdict(run: str, begin: float, end: float) -> None:
    whole = exchanges(run)
    first, last = sorted((int(begin * len(whole)), int(end * len(whole))))
    observer = observed(whole[first:last])
    assert [each for each in observer.differences if each.why is DifferenceCause.UNEXPLAINED] == []


@settings(max_examples=examples(15))
@given(st.sampled_from((*RUNS, STOPS)), st.sets(st.sampled_from([1, 2, 3, 100]), min_size=1))
def test_logs_of_some_brokers_give_no_false_verdict(run: str, brokers: set[int]) -> None:
    observer = observed([each for each in exchanges(run) if each.line.broker in brokers])
    assert [each for each in observer.differences if each.why is DifferenceCause.UNEXPLAINED] == []


def test_malformed_exchange_is_counted_and_skipped() -> None:
    whole = list(exchanges("steady"))
    place = next(i for i, e in enumerate(whole) if e.line.api == "FETCH")
    whole[place] = msgspec.structs.replace(whole[place], request={"topics": 7})
    observer = observed(whole)
    assert observer.unread == {"FETCH": 1}
    assert agreed(observer) > 1500


def reasons(race_ms: float, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Reasons of differences with this limit for races, whatever the brokers' delays."""
    monkeypatch.setattr(KnownFacts, "delay_ms", lambda *_: 0)
    monkeypatch.setattr(partition_moments, "RACE_MS", race_ms)
    found = [observed(exchanges(run)).differences for run in RUNS]
    return Counter(each.why for differences in found for each in differences)


def test_longer_race_limit_explains_no_further_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Races last some milliseconds; no other difference is explained by seconds."""
    races = reasons(partition_moments.RACE_MS, monkeypatch)
    assert races == reasons(10_000, monkeypatch)
    assert (
        reasons(0.5, monkeypatch)[DifferenceCause.UNEXPLAINED] > races[DifferenceCause.UNEXPLAINED]
    )
