"""InitProducerId with a transactional id: producer ids, epochs, fencing.

Numbers are those of the worked examples. Results for epoch 32766 were compared with Kafka 4.3.1.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, partition_for
from brokertwin.state.core.records import TransactionMetadata, TransactionMetadataWritten
from brokertwin.state.transactions import transactional_ids, transactions
from tests.support.machine import START, Bench

DAY = 86_400_000
NONE, LOADING, NOT_COORDINATOR, INVALID, FENCED = 0, 14, 16, 42, 90


def init(bench: Bench, name: str | None = "t1", version: int = 4, **fields: Any) -> tuple[int, ...]:
    """Return producer id and epoch, or only the error."""
    event = {key: fields.pop(key) for key in ("broker", "choices") if key in fields}
    held = fields.pop("held", (-1, -1))
    body = {
        "transactionalId": name,
        "transactionTimeoutMs": 60000,
        "producerId": held[0],
        "producerEpoch": held[1],
        **fields,
    }
    response = bench.request("INIT_PRODUCER_ID", version, body, **event)
    if response["errorCode"]:
        assert (response["producerId"], response["producerEpoch"]) == (-1, -1)
        return (response["errorCode"],)
    return response["producerId"], response["producerEpoch"]


def coordinated(**settings: Any) -> Bench:
    """A cluster with producer id blocks and the internal topic."""
    bench = Bench(**settings)
    for _ in range(2):
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["t1"])
    for broker in bench.settings.brokers:
        init(bench, None, broker=broker)
    return bench


def stored(bench: Bench, name: str = "t1", broker: int = 1) -> TransactionMetadata:
    metadata = transactional_ids.metadata(bench.cell.tables.of(broker), name)
    assert metadata is not None
    return metadata


def exhausted(bench: Bench, held: bool = False) -> int:
    """Bring t1 to epoch 32766 and return its producer id."""
    producer_id, _ = init(bench)
    last = 32765 if held else -1
    known = msgspec.structs.replace(stored(bench), producer_epoch=32766, last_producer_epoch=last)
    transactional_ids.apply_written(
        bench.cell.tables.of(1), TransactionMetadataWritten("t1", known)
    )
    bench.cell.tables.commit()
    return producer_id


def test_example_1_first_producer_gets_a_new_id_the_second_the_next_epoch() -> None:
    bench = coordinated()
    assert init(bench) == (0, 0)
    assert init(bench) == (0, 1)
    assert init(bench, "t2") == (1, 0)
    assert init(bench, transactionTimeoutMs=900_001) == (50,)
    assert init(bench, transactionTimeoutMs=0) == (50,)
    assert init(bench, transactionTimeoutMs=-1) == (50,)
    assert init(bench, "") == (INVALID,)
    assert init(bench) == (0, 2)


def test_example_9_exhausted_epoch_gets_a_new_id_and_the_retry_gets_it_again() -> None:
    bench = coordinated()
    old = exhausted(bench)
    new = old + 1
    assert init(bench, held=(old, 32766)) == (new, 0)
    known = stored(bench)
    assert (known.previous_producer_id, known.last_producer_epoch) == (old, 32766)
    assert init(bench, held=(old, 32766)) == (new, 0)
    assert init(bench, held=(old, 10)) == (FENCED,)
    assert init(bench, held=(new, 0)) == (new, 1)
    assert init(bench, held=(old, 32766)) == (FENCED,)


def test_exhausted_epoch_with_another_expected_epoch_is_a_server_error() -> None:
    bench = coordinated()
    old = exhausted(bench, held=True)
    assert init(bench, held=(old, 32765)) == (-1,)
    assert init(bench, held=(old, 10)) == (-1,)
    assert init(bench) == (old + 1, 0)
    assert stored(bench).last_producer_epoch == -1


def test_example_10_stored_epoch_retry_and_other_epochs() -> None:
    bench = coordinated()
    for _ in range(11):
        producer_id, epoch = init(bench)
    assert epoch == 10
    assert init(bench, held=(producer_id, 10)) == (producer_id, 11)
    assert init(bench, held=(producer_id, 10)) == (producer_id, 11)
    assert init(bench, held=(producer_id, 9)) == (FENCED,)
    assert init(bench) == (producer_id, 12)
    assert init(bench, held=(producer_id, 11)) == (FENCED,)


def test_another_producer_id_is_fenced() -> None:
    bench = coordinated()
    init(bench)
    assert init(bench, held=(1, 0)) == (FENCED,)
    assert init(bench, held=(1, 32766)) == (FENCED,)


def test_fenced_producer_gets_invalid_producer_epoch_before_version_4() -> None:
    bench = coordinated()
    init(bench)
    assert init(bench, version=3, held=(0, 7)) == (47,)
    assert init(bench, version=3, held=(5, 0)) == (47,)
    assert init(bench, version=4, held=(0, 7)) == (FENCED,)


def test_unknown_transactional_id_gets_a_new_producer_id() -> None:
    bench = coordinated()
    assert init(bench, held=(77, 3)) == (0, 0)


@pytest.mark.parametrize("held", [(5, -1), (-1, 5)])
def test_producer_id_without_epoch_is_an_invalid_request(held: tuple[int, int]) -> None:
    assert init(coordinated(), held=held) == (INVALID,)


def test_other_brokers_return_not_coordinator() -> None:
    bench = Bench()
    assert init(bench) == (NOT_COORDINATOR,), "__transaction_state does not exist yet"
    assert init(bench, transactionTimeoutMs=0) == (50,), "the timeout is checked first"
    several = coordinated(brokers=(1, 2, 3))
    assert TRANSACTION_TOPIC == "__transaction_state"
    responses = [init(several, broker=broker) for broker in (1, 2, 3)]
    assert sorted(len(response) for response in responses) == [1, 1, 2]
    assert responses.count((NOT_COORDINATOR,)) == 2
    assert 0 <= partition_for("t1", 50) < 50


def test_only_a_new_id_needs_a_producer_id_block() -> None:
    bench = Bench()
    for _ in range(2):
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["t1"])
    assert init(bench) == (LOADING,)
    assert init(bench) == (0, 0)


def test_timeout_and_timestamp_are_those_of_the_last_request() -> None:
    bench = coordinated()
    init(bench, transactionTimeoutMs=1000)
    bench.now += 5
    init(bench, transactionTimeoutMs=2000)
    known = stored(bench)
    assert (known.transaction_timeout_ms, known.last_update_timestamp) == (2000, START + 5)
    assert known.state == "Empty"


def test_every_change_is_a_record() -> None:
    bench = coordinated()
    init(bench)
    init(bench)
    kinds = [entry["record"]["type"] for entry in bench.records()]
    assert kinds[-3:] == ["ProducerIdIssued", *["TransactionMetadataWritten"] * 2]
    assert bench.records()[-1]["record"]["metadata"]["producerEpoch"] == 1


def test_recorded_id_is_used_only_if_one_is_allocated() -> None:
    bench = coordinated()
    assert init(bench, choices={"producerId": 15}) == (15, 0)
    assert init(bench, choices={"producerId": 99}) == (15, 1)
    assert init(bench, None) == (16, 0)


def test_unused_id_expires_after_seven_days() -> None:
    bench = coordinated()
    init(bench)
    bench.now = START + 3_600_000
    init(bench, "t2")
    bench.tick(7 * DAY - 3_600_000 - 1)
    assert stored(bench).producer_epoch == 0
    bench.tick(3_600_000)
    assert transactional_ids.metadata(bench.cell.tables.of(1), "t1") is None
    assert bench.records()[-1]["record"] == {
        "type": "TransactionalIdExpired",
        "transactionalId": "t1",
    }
    assert init(bench, "t2") == (1, 1)
    assert init(bench) == (2, 0)


def test_example_of_expiry_after_exactly_seven_days() -> None:
    metadata = TransactionMetadata(1, 0, last_update_timestamp=0)
    assert not transactions.is_expired(metadata, 604_799_999, 604_800_000)
    assert transactions.is_expired(metadata, 604_800_000, 604_800_000)


NAMES = st.sampled_from(["t1", "t2"])


class OneHolder(RuleBasedStateMachine):
    """Producers init, repeat and are late; each id has at most one holder."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = coordinated()
        self.given: dict[str, list[tuple[int, ...]]] = {"t1": [], "t2": []}

    @rule(name=NAMES)
    def begin(self, name: str) -> None:
        response = init(self.bench, name)
        assert response not in self.given[name], "each epoch is issued once"
        self.given[name].append(response)

    @rule(name=NAMES, data=st.data())
    def go_on(self, name: str, data: st.DataObject) -> None:
        if not self.given[name]:
            return
        held = data.draw(st.sampled_from(self.given[name]))
        response = init(self.bench, name, held=held)
        if response == (FENCED,):
            assert held != self.given[name][-1], "the last holder is not fenced"
        elif response == self.given[name][-1]:
            assert held == self.given[name][-2], "a retry"
        else:
            assert held == self.given[name][-1]
            self.given[name].append(response)

    @invariant()
    def ids_are_of_one_name(self) -> None:
        ids = [{pid for pid, _ in self.given[name]} for name in ("t1", "t2")]
        assert not ids[0] & ids[1]
        assert self.given["t1"] == sorted(self.given["t1"])


TestOneHolder = OneHolder.TestCase


@given(st.lists(NAMES, max_size=12))
def test_stored_cell_continues(names: list[str]) -> None:
    kept, reloaded = coordinated(), coordinated()
    for name in names:
        reloaded.reload()
        assert init(kept, name) == init(reloaded, name)
