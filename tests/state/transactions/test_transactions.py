"""State machine of a transactional id, and its diagram in the docs.

    python tests/state/transactions/test_transactions.py

updates the diagram in `docs/systems/transactions.md`.
"""

import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from brokertwin.state.core.records import TransactionMetadata
from brokertwin.state.transactions import transactions
from brokertwin.state.transactions.transactions import (
    EPOCH_MAX,
    EXHAUSTED_EPOCH,
    IDLE,
    TRANSITIONS,
    EventData,
    ProducerIdAndEpoch,
    TransactionEvent,
    TransactionState,
    Transition,
)

PAGE = Path(__file__).parents[3] / "docs" / "systems" / "transactions.md"
BEGIN, END = "```mermaid\n", "```\n"

VALID_PREVIOUS = {
    TransactionState.EMPTY: {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    },
    TransactionState.ONGOING: {
        TransactionState.ONGOING,
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    },
    TransactionState.PREPARE_COMMIT: {TransactionState.ONGOING},
    TransactionState.PREPARE_ABORT: {
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    },
    TransactionState.COMPLETE_COMMIT: {TransactionState.PREPARE_COMMIT},
    TransactionState.COMPLETE_ABORT: {TransactionState.PREPARE_ABORT},
    TransactionState.DEAD: {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    },
    TransactionState.PREPARE_EPOCH_FENCE: {TransactionState.ONGOING},
}
"""`TransactionState.VALID_PREVIOUS_STATES` of Kafka 4.3.1."""

METADATA = st.builds(
    TransactionMetadata,
    producer_id=st.integers(0, 3),
    producer_epoch=st.sampled_from([0, 1, 2, EXHAUSTED_EPOCH - 1, EXHAUSTED_EPOCH]),
    previous_producer_id=st.integers(-1, 3),
    last_producer_epoch=st.integers(-1, 2),
    transaction_timeout_ms=st.just(1000),
    state=st.sampled_from([str(state) for state in TransactionState]),
    last_update_timestamp=st.integers(0, 100),
    transaction_start_timestamp=st.integers(-1, 100),
    partitions=st.dictionaries(st.sampled_from("ab"), st.just([0, 1])),
)


def test_transitions_equal_kafkas_valid_previous_states() -> None:
    actual: dict[TransactionState, set[TransactionState]] = {
        state: set() for state in TransactionState
    }
    for (state, _), rule in TRANSITIONS.items():
        if isinstance(rule, Transition):
            actual[rule.target].add(state)
    assert actual == VALID_PREVIOUS


def test_events_missing_in_the_table_raise() -> None:
    for state, event in itertools.product(TransactionState, TransactionEvent):
        check_request(state, event)


def check_request(state: TransactionState, event: TransactionEvent) -> None:
    metadata = TransactionMetadata(1, 0, state=state, transaction_start_timestamp=0)
    requested = EventData(5, partitions={"a": [0]})
    if (state, event) not in TRANSITIONS:
        with pytest.raises(KeyError):
            transactions.step(metadata, event, requested)
        return
    changed = transactions.step(metadata, event, requested)
    rule = TRANSITIONS[state, event]
    if isinstance(rule, Error):
        assert changed is rule
    else:
        assert isinstance(changed, TransactionMetadata), (state, event)
        assert changed.state == rule.target, (state, event)


@given(METADATA, st.integers(-1, 3), st.integers(-1, 3), st.booleans(), st.sampled_from([1, 2]))
def test_end_events_are_in_the_table_or_rejected(
    known: TransactionMetadata, producer_id: int, behind: int, is_commit: bool, version: int
) -> None:
    known.state = str(TransactionState(known.state))
    if known.state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        known.state = TransactionState.ONGOING
    holder = ProducerIdAndEpoch(producer_id, known.producer_epoch - behind)
    event = transactions.end_event(known, holder, is_commit, version)
    if isinstance(event, Error):
        assert event in (Error.INVALID_PRODUCER_ID_MAPPING, Error.PRODUCER_FENCED)
    else:
        assert (TransactionState(known.state), event) in TRANSITIONS


@given(METADATA, st.sampled_from(list(TransactionEvent)), st.integers(101, 200))
def test_no_transition_decreases_the_epoch(
    known: TransactionMetadata, event: TransactionEvent, now: int
) -> None:
    if (TransactionState(known.state), event) not in TRANSITIONS:
        return
    before = msgspec.structs.replace(known)
    new_id = 9 if transactions.needs_new_id(known, event) else -1
    changed = transactions.step(
        known, event, EventData(now, 1000, new_producer_id=new_id, partitions={"a": [2]})
    )
    assert known == before, "metadata is never modified in place"
    if isinstance(changed, Error):
        return
    assert changed.last_update_timestamp == now
    assert changed.previous_producer_id == known.producer_id
    if changed.producer_id == known.producer_id:
        assert known.producer_epoch <= changed.producer_epoch <= EPOCH_MAX
    else:
        assert changed.producer_epoch == 0
    if changed.state in IDLE or changed.state == TransactionState.DEAD:
        assert not changed.partitions or changed.state == TransactionState.DEAD


def diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    arrows: dict[tuple[TransactionState, TransactionState], list[str]] = {}
    for (state, event), rule in TRANSITIONS.items():
        if isinstance(rule, Transition):
            arrows.setdefault((state, rule.target), []).append(event)
    lines = [
        f"    {old} --> {'[*]' if new is TransactionState.DEAD else new}: {', '.join(events)}"
        for (old, new), events in arrows.items()
    ]
    return "\n".join(
        [
            "stateDiagram-v2",
            f"    [*] --> {TransactionState.EMPTY}: {TransactionEvent.INIT}",
            *lines,
            "",
        ]
    )


def test_diagram_in_the_docs_equals_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0] == diagram()


def draw() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + diagram() + END + after, encoding="utf-8")


if __name__ == "__main__":
    draw()
