"""Properties of all machines: any start, any nearby order, encodable at any time, bounded."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import msgspec
import pytest

from brokertwin.recordings.history import (
    batches,
    clients,
    entity,
    group_offsets,
    lag,
    memberships,
    partition_moments,
    producer_epochs,
    replication,
    sessions,
    shares,
    stable_offsets,
    transactions,
)
from brokertwin.recordings.history.entity import (
    WAIT_MS,
    EntityKey,
    EntityKind,
    ObservedEntities,
    ObservedEntity,
    observe,
)
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding, Rebalance, Severity
from brokertwin.recordings.history.recording import KINDS
from tests.support import audits
from tests.support.sources import imported_modules, name_of, python_files, tree_of

MODULES: tuple[ModuleType, ...] = (
    *(batches, clients, entity, group_offsets, lag, memberships, producer_epochs, sessions, shares),
    *(partition_moments, replication, stable_offsets, transactions),
)
STARTS = 6
LIMIT = 3

machines = pytest.mark.parametrize("name", sorted(KINDS))


@cache
def recorded(recording: str) -> tuple[Sequence[RecordedExchange], KnownFacts]:
    history = audits.whole(recording).history
    return history.recording.exchanges, history.recording.known


@cache
def whole(name: str, recording: str) -> ObservedEntities:
    return observe(KINDS[name], *recorded(recording))


def accusations(findings: Sequence[Finding]) -> dict[str, Finding]:
    return {name_without_start(e): e for e in findings if e.severity >= Severity.WARNING}


def name_without_start(found: Finding) -> str:
    """The id; a recording that starts later may show a rebalance first by another response."""
    if isinstance(found, Rebalance):
        return f"{found.kind} {found.group} {found.number}"
    return found.id


@pytest.mark.long
@machines
def test_a_start_in_the_middle_accuses_no_client_without_evidence(name: str) -> None:
    for recording in audits.RECORDINGS:
        exchanges, known = recorded(recording)
        complete = accusations(whole(name, recording).findings)
        for number in range(1, STARTS):
            rest = exchanges[number * len(exchanges) // STARTS :]
            for id_, found in accusations(observe(KINDS[name], rest, known).findings).items():
                assert id_ in complete, recording
                assert set(found.by) <= set(complete[id_].by), (recording, id_)


def shuffled(exchanges: Sequence[RecordedExchange], seed: int) -> list[RecordedExchange]:
    """The exchanges with delays below half of the time that machines wait."""
    chance = random.Random(seed)
    keyed = [(each.line.end + chance.random() * WAIT_MS / 2, each) for each in exchanges]
    return [each for _, each in sorted(keyed, key=lambda pair: pair[0])]


@machines
def test_a_nearby_order_changes_nothing(name: str) -> None:
    for seed, recording in enumerate(audits.RECORDINGS):
        exchanges, known = recorded(recording)
        found = observe(KINDS[name], shuffled(exchanges, seed), known)
        assert found.findings == whole(name, recording).findings, recording
        assert found.entities.keys() == whole(name, recording).entities.keys()


def stored_again(kind: EntityKind, key: EntityKey, state: ObservedEntity) -> ObservedEntity:
    decoder = msgspec.msgpack.Decoder(type(kind.machine(key)))
    return decoder.decode(msgspec.msgpack.encode(state))


@pytest.mark.long
@machines
def test_a_state_is_encodable_at_any_time(name: str) -> None:
    kind = KINDS[name]
    for recording in audits.RECORDINGS:
        exchanges, known = recorded(recording)
        found: dict[str, Finding] = {}
        states: dict[EntityKey, ObservedEntity] = {}
        for number, exchange in enumerate(exchanges):
            for key, part in (
                kind.parts_of(exchange, known) if exchange.line.api in kind.apis else ()
            ):
                state = states.get(key) or kind.machine(key)
                if number % 7 == 0:
                    state = stored_again(kind, key, state)
                found |= {each.id: each for each in state.step(part, known)}
                states[key] = state
        for key, state in states.items():
            found |= {
                each.id: each for each in stored_again(kind, key, state).expire(10**15, known)
            }
        kept = [each for each in found.values() if not each.is_withdrawn]
        kept.sort(key=lambda each: (each.line.order, each.subject.name))
        assert kept == whole(name, recording).findings, recording


def collections_of(value: Any) -> Iterator[Any]:
    """The lists and maps of a state, at any depth; bodies of waiting exchanges are left out."""
    if isinstance(value, RecordedExchange):
        return
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from collections_of(getattr(value, field))
    elif isinstance(value, list | dict | set):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from collections_of(each)


@machines
def test_a_state_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        for limit in [
            each for each in vars(module) if each.endswith("S_MAX") or each == "WAITING_MAX"
        ]:
            monkeypatch.setattr(module, limit, LIMIT)
    for recording in audits.RECORDINGS:
        for state in observe(KINDS[name], *recorded(recording)).entities.values():
            assert all(len(each) <= LIMIT for each in collections_of(state)), recording


DECIDING = ("brokertwin.state.", "brokertwin.recordings.audit", "brokertwin.recordings.explain")
READ_ONLY = ("brokertwin.state.core.",)
"""Names, error codes and messages."""


def test_machines_import_nothing_that_decides() -> None:
    modules = {
        (name_of(file), module)
        for file in python_files("recordings/history")
        for module in imported_modules(tree_of(file))
        if module.startswith(DECIDING) and not module.startswith(READ_ONLY)
    }
    assert modules == set()
