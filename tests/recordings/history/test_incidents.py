"""Incidents of recorded clusters whose brokers were stopped, killed and shut down.

`tests/requestlogs/README.md` says what was done to them.
"""

import random
from itertools import accumulate, pairwise

import msgspec
import pytest

from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.history import incidents as incidents_module
from brokertwin.recordings.history.findings import (
    BrokerGone,
    Certainty,
    Incident,
    IsrShrank,
    LeaderChanged,
    Refused,
    UnderMinIsr,
)
from brokertwin.recordings.history.incidents import SILENT_MS, BrokerSigns, Signs, incidents
from tests.support.audits import whole

GONE = {
    "follower_stop": [(3, False, "01:21:45"), (2, False, "01:21:56"), (3, False, "01:21:56")],
    "leader_kill": [(1, False, "01:22:27")],
    "steady": [],
}


def roots(run: str) -> list[BrokerGone]:
    found = [each.root for each in whole(run).history.incidents]
    assert all(isinstance(each, BrokerGone) for each in found)
    return [each for each in found if isinstance(each, BrokerGone)]


def clock(time: float) -> str:
    seconds = int(time / 1000) % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@pytest.mark.parametrize("run", sorted(GONE))
def test_each_broker_that_was_gone_is_one_incident(run: str) -> None:
    found = [(each.broker, each.is_shutdown, clock(each.last_sign)) for each in roots(run)]
    assert sorted(found) == sorted(GONE[run])
    assert all(each.back is not None and each.back > each.last_sign for each in roots(run))
    assert all(each.certainty is Certainty.SEEN for each in roots(run))


def follows(run: str, broker: int) -> Incident:
    return next(
        e for e in whole(run).history.incidents if e.root.subject.name == f"broker {broker}"
    )


def test_changes_and_refusals_of_the_time_follow_from_it() -> None:
    more = follows("follower_stop", 2).consequences
    assert {type(each) for each in more} >= {IsrShrank, LeaderChanged, UnderMinIsr, Refused}
    assert {each.broker for each in more if isinstance(each, IsrShrank)} == {2}
    assert sum(isinstance(each, UnderMinIsr) for each in more) == 44


def test_findings_of_an_incident_are_reported_once() -> None:
    kinds = [each.kind for each in whole("leader_kill").findings]
    assert kinds.count("broker-gone") == 1
    assert {"isr-shrunk", "leader-changed"}.isdisjoint(kinds)


def test_a_changed_leader_alone_shows_that_the_former_one_was_gone() -> None:
    history = whole("leader_kill").history
    led = [each for each in history.unfolded_changes() if isinstance(each, LeaderChanged)]
    end = max(each.time for each in led) + 60_000
    assert {each.root.subject.name for each in incidents(led, history.signs, end)} == {"broker 1"}


def test_a_broker_that_still_sends_heartbeats_was_not_gone() -> None:
    """Its replica was too slow: it left in-sync sets, and stayed at the controller."""
    history = whole("leader_kill").history
    found = [*history.unfolded_changes()]
    times = [float(time) for time in range(0, 10**6, 1_000)]
    first = min(each.line.time for each in found) - 500_000
    beats = [first + time for time in times]
    alive = {broker: BrokerSigns(beats, beats, [], [], []) for broker in (1, 2, 3)}
    assert incidents(found, alive, beats[-1]) == []


def test_a_short_silence_of_a_busy_broker_is_no_absence() -> None:
    found = whole("leader_kill").history.unfolded_changes()
    first = min(each.line.time for each in found)
    beats = [first + time * 100.0 for time in range(-600, 0)]
    beats += [first + 1_000 + time * 100.0 for time in range(600)]
    alive = {broker: BrokerSigns(beats, beats, [], [], []) for broker in (1, 2, 3)}
    assert incidents(found, alive, beats[-1]) == []


def test_a_broker_that_serves_while_the_controller_hears_of_none_was_not_gone() -> None:
    found = whole("leader_kill").history.unfolded_changes()
    first = min(each.line.time for each in found)
    every = [first + time * 100.0 for time in range(-600, 600)]
    beats = [each for each in every if not first - 5_000 < each < first + 30_000]
    serving = {broker: BrokerSigns(every, beats, [], [], []) for broker in (1, 2, 3)}
    assert incidents(found, serving, beats[-1]) == []
    silent = {**serving, 1: BrokerSigns(beats, beats, [], [], [])}
    assert {each.root.subject.name for each in incidents(found, silent, beats[-1])} == {"broker 1"}


def test_a_refusal_before_a_broker_asked_for_its_shutdown_does_not_follow_from_it() -> None:
    found = whole("leader_kill").history.unfolded_changes()
    first = min(each.line.time for each in found)
    refused = next(e for e in follows("leader_kill", 1).consequences if isinstance(e, Refused))
    at = [msgspec.structs.replace(refused.line, time=first + ms) for ms in (-20_000, 5_000)]
    early, late = (msgspec.structs.replace(refused, line=line) for line in at)
    beats = [first - 100.0, first + 30_000.0]
    signs = {1: BrokerSigns(beats, beats, beats[:1], beats[1:], beats[1:])}
    (found_one,) = incidents([*found, early, late], signs, beats[-1])
    assert [e for e in found_one.consequences if isinstance(e, Refused)] == [late]


OF_A_RESTART = """\
NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH LEADER_NOT_AVAILABLE
REPLICA_NOT_AVAILABLE BROKER_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR NOT_CONTROLLER REQUEST_TIMED_OUT OFFSET_NOT_AVAILABLE NETWORK_EXCEPTION
PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE
"""


def test_refusals_that_follow_are_of_errors_that_a_restart_gives() -> None:
    found = whole("leader_kill").history.unfolded_changes()
    refused = next(e for e in follows("leader_kill", 1).consequences if isinstance(e, Refused))
    all_codes = [msgspec.structs.replace(refused, code=code) for code in Error if code > 0]
    signs = whole("leader_kill").history.signs
    (found_one,) = incidents([*found, *all_codes], signs, refused.line.end + 60_000)
    codes = {e.code for e in found_one.consequences if isinstance(e, Refused)}
    assert {*map(error_name, codes)} == {*OF_A_RESTART.split()}


def test_without_signs_nothing_is_known_of_a_broker() -> None:
    assert incidents([*whole("leader_kill").history.unfolded_changes()], {}, 0.0) == []


@pytest.mark.parametrize("seed", range(5))
def test_older_signs_are_thinned_out_and_no_silence_is_lost(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, most = random.Random(seed), 100
    shown = msgspec.structs.replace(whole("steady").history.replication.exchanges[0], request={})
    gaps = [chance.choice((0.5, 20.0, 300.0, 1_500.0, 9_000.0)) for _ in range(1_000)]
    times = [1e12 + each for each in accumulate(gaps)]
    whole_signs, signs = Signs(), Signs()
    beat = msgspec.structs.replace(shown, request={"brokerId": shown.line.broker}, response={})
    for number, time in enumerate(times):
        exchange = msgspec.structs.replace(shown, made=time, is_internal=False)
        if number % 50 == 0:
            line = msgspec.structs.replace(shown.line, api="BROKER_HEARTBEAT", time=time)
            exchange = msgspec.structs.replace(beat, line=line, is_internal=True)
        whole_signs.take(exchange)
        monkeypatch.setattr(incidents_module, "SIGNS_MAX", most)
        signs.take(exchange)
        monkeypatch.undo()
        (kept,), (every,) = (e.by_broker.values() for e in (signs, whole_signs))
        if number < most:
            assert kept == every
        assert len(kept.all) <= most
        assert kept.all[-most // 2 :] == every.all[-most // 2 :]
        assert kept.heartbeats == [each for each in every.heartbeats if each >= kept.all[0]]
    assert times[0] < kept.all[0], "the oldest are left out"
    silences = {e for e in pairwise(times) if e[1] - e[0] >= SILENT_MS and e[0] >= kept.all[0]}
    found = {e for e in pairwise(kept.all) if e[1] - e[0] >= SILENT_MS}
    assert found == silences and silences


def test_signs_of_a_broker_are_its_heartbeats_fetches_and_responses() -> None:
    signs = whole("steady").history.signs
    assert {1, 2, 3} <= signs.keys()
    for broker in (1, 2, 3):
        assert len(signs[broker].all) > len(signs[broker].heartbeats) > 10
        assert signs[broker].all == sorted(signs[broker].all)
