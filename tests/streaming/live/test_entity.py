"""Entities of the live audit: the findings of audit, however micro-batches are cut."""

import random
from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history import lag
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import Rebalance, Refused, Severity
from brokertwin.streaming.live import entity
from brokertwin.streaming.live.entity import BLOCK_MS, LATE_MS, SeenExchanges
from brokertwin.streaming.live.facts import ClusterFacts, learned
from brokertwin.streaming.live.kinds import is_settled, routes
from tests.support import audits
from tests.support.live import CLUSTER, SOURCE, LiveMachines, cut
from tests.support.planted_exchanges import audit_of, planted
from tests.support.synthetic_recording import SyntheticRecording

SEEDS = 2


def exchanges_of(recording: str) -> list[RecordedExchange]:
    return sorted(audits.whole(recording).history.replication.exchanges, key=lambda e: e.line.time)


@pytest.mark.long
@pytest.mark.parametrize("recording", audits.RECORDINGS)
def test_findings_are_those_of_audit_for_any_cut_into_micro_batches(recording: str) -> None:
    wanted = audits.unfolded(recording)
    for seed in range(SEEDS):
        machines = LiveMachines()
        for part in cut(exchanges_of(recording), seed):
            machines.batch(part)
        machines.end()
        assert machines.audited() == wanted, seed


REACHED = {
    *("lag-growing", "commit-beyond-end"),
    *("isr-shrunk", "leader-changed", "hw-differs", "isr-against-rule"),
}


def test_findings_about_planted_lag_and_replicas_are_those_of_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("follower_stop", "leader_kill", "group_kp", "txn_loop_ck")
    recorded = {name: exchanges_of(name) for name in names}  # they are kept for other tests
    monkeypatch.setattr(lag, "GROWTH", 5)
    reached = Counter[str]()
    for seed, (recording, every) in enumerate(recorded.items()):
        exchanges = planted(every, seed)
        machines = LiveMachines()
        for part in cut(exchanges, seed):
            machines.batch(part)
        machines.end()
        wanted = audit_of(exchanges)
        assert machines.audited() == wanted, recording
        reached.update(each.kind for each in wanted)
    assert reached.keys() >= REACHED, reached


@pytest.mark.parametrize("recording", audits.RECORDINGS)
def test_routes_of_a_settled_exchange_are_the_same_with_all_facts(recording: str) -> None:
    every, chance = exchanges_of(recording), random.Random(1)
    whole, known = ClusterFacts(), ClusterFacts()
    rows = list(learned(CLUSTER, SOURCE, every, whole, 0))
    for row in rows:
        whole.add(row)
        if chance.random() < 0.5:
            known.add(row)
    nameless = [
        replace(each, request={**each.request, "transactionalId": None})
        for each in every
        if each.line.api == "PRODUCE"
    ]
    settled = [each for each in (*every, *nameless) if is_settled(each, known.known)]
    for each in settled:
        assert list(routes(each, known)) == list(routes(each, whole)), each.line.place
    assert settled


@pytest.mark.long
@pytest.mark.parametrize("recording", audits.RECORDINGS)
def test_repeated_and_late_exchanges_change_nothing(recording: str) -> None:
    once, twice = LiveMachines(), LiveMachines()
    chance, former = random.Random(7), list[RecordedExchange]()
    for part in cut(exchanges_of(recording), 1):
        once.batch(part)
        again = [each for each in former if chance.random() < 0.3]
        twice.batch([*part, *again, *part])
        former += part
    for machines in (once, twice):
        machines.end()
    assert twice.found == once.found


@pytest.mark.long
@pytest.mark.parametrize("recording", audits.RECORDINGS)
def test_a_start_in_the_middle_accuses_no_client_without_evidence(recording: str) -> None:
    exchanges = exchanges_of(recording)
    names = audits.whole(recording).history.names
    complete = LiveMachines()
    for part in cut(exchanges, 1):
        complete.batch(part)
    complete.end()
    for number in range(1, 4):
        begun = LiveMachines()
        for part in cut(exchanges[number * len(exchanges) // 4 :], number):
            begun.batch(part)
        begun.end()
        for id_, found in begun.found.items():
            for topic_id, name in names.items():
                id_ = id_.replace(topic_id, name)
            same = {id_} if not isinstance(found, Rebalance) else rebalances_like(found, complete)
            assert found.severity < Severity.WARNING or same & complete.found.keys()


def rebalances_like(found: Rebalance, complete: LiveMachines) -> set[str]:
    """The ids of a rebalance; a recording that starts later may show it first by another line."""
    return {
        name
        for name, each in complete.found.items()
        if isinstance(each, Rebalance) and (each.group, each.number) == (found.group, found.number)
    }


def test_arrivals_with_responses_in_the_same_ms_are_in_the_order_of_requests_and_lines() -> None:
    one = exchanges_of("steady")[0]
    places = [(9, "a:1", 5), (9, "b:2", 6), (9, "b:10", 6), (10, "a:1", 1)]
    lines = [replace(one.line, end=end, place=place, time=time) for end, place, time in places]
    arrivals = [
        entity.EntityArrival(number, replace(one, line=line)) for number, line in enumerate(lines)
    ]
    new = SeenExchanges().new_ones(arrivals[::-1], 0, Counter())
    assert [each.number for each in new] == [0, 1, 2, 3]


def test_an_entity_keeps_ids_of_a_bounded_time_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges = exchanges_of("steady")
    seen = SeenExchanges()
    one = exchanges[0]

    def at(time: int, number: int) -> entity.EntityArrival:
        line = msgspec.structs.replace(one.line, time=time, end=time)
        return entity.EntityArrival(number, msgspec.structs.replace(one, line=line))

    begin = 1_000_000
    counts = Counter[str]()
    assert len(seen.new_ones([at(begin, 1), at(begin, 2), at(begin, 1)], begin, counts)) == 2
    assert len(seen.new_ones([at(begin + LATE_MS, 3)], begin, counts)) == 1
    assert len(seen.new_ones([at(begin, 4)], begin, counts)) == 1, "its log is behind"
    assert counts == {"repeated": 1}
    seen.new_ones([], begin + LATE_MS + BLOCK_MS, counts)
    assert not seen.new_ones([at(begin, 5)], begin, counts), "it is late"
    assert counts == {"repeated": 1, "late": 1}
    assert len(seen.blocks) == 1
    monkeypatch.setattr(entity, "IDS_MAX", 100)
    begin = 2_000_000
    for number in range(1_000):
        seen.new_ones([at(begin + number * 100, number)], begin, counts)
    assert sum(map(len, seen.blocks.values())) <= 8 * (100 + BLOCK_MS // 100)
    again = [at(begin + number * 100, number) for number in range(1_000)]
    assert not seen.new_ones(again, 0, counts)


def test_the_same_refusals_complete_a_finding_for_a_minute_after_the_first() -> None:
    recording = SyntheticRecording()
    ends = (10, 60_010, 60_010, 60_011)
    for number, end in enumerate(ends):
        failed = {"topics": [{"errorCode": Error.TOPIC_ALREADY_EXISTS}]}
        recording.add("a", "CREATE_TOPICS", {"topics": []}, failed, at=number, end=end)
    client = entity.LiveEntity(EntityKey("client", "a"), None)
    sizes = []
    for found in History(recording.exchanges).found(CLIENTS, Refused):
        client.machine.newest = found.line.end
        sizes += [len(group) for group in client.together([found])]
    assert sizes == [1, 2, 3, 1]


def test_a_finding_with_all_its_refusals_leaves_nothing_in_the_state() -> None:
    recording, count = SyntheticRecording(), 2 * entity.TOGETHER_MAX + 1
    failed = {"topics": [{"errorCode": Error.TOPIC_ALREADY_EXISTS}]}
    for number in range(count):
        recording.add("a", "CREATE_TOPICS", {"topics": []}, failed, at=number, end=number)
    client, sizes = entity.LiveEntity(EntityKey("client", "a"), None), list[int]()
    for found in History(recording.exchanges).found(CLIENTS, Refused):
        client.machine.newest = found.line.end
        sizes += [len(group) for group in client.together([found])]
        kept = msgspec.msgpack.decode(client.stored(), type=entity.StoredEntity).refused
        assert sum(map(len, kept)) < entity.TOGETHER_MAX
    assert sizes == [*range(1, 101), *range(1, 101), 1]
