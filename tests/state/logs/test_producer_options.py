"""Two settings from the seed that change Kafka's rules: their effects and their costs.

brokertwin.reject.unknown.producer      59 UNKNOWN_PRODUCER_ID unless an unknown one starts at 0
brokertwin.duplicates.below.expected    a batch below the expected sequence is a duplicate
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from tests.support.machine import START, Bench, header

DAY = 86_400_000
ACCEPTED, OUT_OF_ORDER, DUPLICATE, UNKNOWN = 0, 45, 46, 59


class Partition:
    """One partition, and the (first sequence, records) of each appended batch."""

    def __init__(self, rejects: bool = False, below: bool = False) -> None:
        self.bench = Bench(
            brokertwin_reject_unknown_producer=rejects,
            brokertwin_duplicates_below_expected=below,
        )
        self.bench.topic("orders")

    def response(self, sequence: int, count: int = 1, epoch: int = 0) -> dict[str, Any]:
        batch = header(count, 7, epoch, sequence, maxTimestamp=self.bench.now)
        return self.bench.append("orders", batch, version=12)

    def produce(self, sequence: int, count: int = 1, epoch: int = 0) -> int:
        return int(self.response(sequence, count, epoch)["errorCode"])

    def log(self) -> list[int]:
        """Sequences of the records in the log, in order."""
        appended = [e["record"] for e in self.bench.records() if "batch" in e["record"]]
        batches = [record["batch"] for record in appended]
        return [batch["baseSequence"] + n for batch in batches for n in range(batch["recordCount"])]

    def forget(self) -> None:
        self.bench.tick(2 * DAY)

    def delete_records(self, offset: int) -> None:
        response = self.bench.request(
            "DELETE_RECORDS", 2, name="orders", partitionIndex=0, offset=offset
        )
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0


def filled(batches: int, rejects: bool = False, below: bool = False) -> Partition:
    partition = Partition(rejects, below)
    for sequence in range(batches):
        assert partition.produce(sequence) == ACCEPTED
    return partition


def test_example_11_unknown_producer_starts_anywhere_or_is_rejected() -> None:
    assert Partition().produce(17) == ACCEPTED
    strict = Partition(rejects=True)
    assert strict.produce(17) == UNKNOWN
    assert strict.produce(0) == ACCEPTED
    assert strict.produce(5, epoch=1) == OUT_OF_ORDER, "known, in a new epoch"


def test_after_expiry_the_producer_is_unknown() -> None:
    for rejects, expected in ((False, ACCEPTED), (True, UNKNOWN)):
        partition = filled(3, rejects=rejects)
        partition.forget()
        assert partition.produce(3) == expected


def test_producer_is_forgotten_with_its_records_only_if_unknown_ones_are_rejected() -> None:
    for rejects, expected in ((False, ACCEPTED), (True, UNKNOWN)):
        partition = filled(3, rejects=rejects)
        partition.delete_records(2)
        assert partition.produce(3) == ACCEPTED, "a record is left"
        partition.delete_records(4)
        response = partition.response(4)
        assert response["errorCode"] == expected
        assert response["logStartOffset"] == 4, "it shows the client that nothing was lost"


def test_six_in_flight_batches_first_is_out_of_order_forever() -> None:
    """The seed's example: six batches arrive, the response to the first is lost."""
    kafka, below = filled(6), filled(6, below=True)
    assert [kafka.produce(0) for _ in range(3)] == [OUT_OF_ORDER] * 3
    assert below.produce(0) == DUPLICATE
    assert below.log() == kafka.log() == list(range(6))


def test_last_five_batches_get_the_original_response_under_either_rule() -> None:
    for below in (False, True):
        partition = filled(6, below=below)
        assert [partition.response(n)["baseOffset"] for n in range(1, 6)] == list(range(1, 6))


def test_older_duplicate_has_no_offset_and_no_time() -> None:
    response = filled(6, below=True).response(0)
    assert (response["baseOffset"], response["logAppendTimeMs"]) == (-1, -1)


def test_rebatched_records_are_duplicates() -> None:
    """A large batch was appended and is sent again in two parts."""
    for below, expected in ((False, OUT_OF_ORDER), (True, DUPLICATE)):
        partition = Partition(below=below)
        assert partition.produce(0, count=4) == ACCEPTED
        assert [partition.produce(n, count=2) for n in (0, 2)] == [expected] * 2
        assert partition.produce(2, count=4) == OUT_OF_ORDER, "half of it is new"


def test_higher_sequences_and_other_epochs_are_checked_as_in_kafka() -> None:
    partition = filled(6, below=True)
    assert partition.produce(7) == OUT_OF_ORDER
    assert partition.produce(3, epoch=1) == OUT_OF_ORDER
    assert partition.produce(0, epoch=1) == ACCEPTED
    assert partition.produce(0, epoch=0) == Error.INVALID_PRODUCER_EPOCH


def test_sequences_before_the_wrap_are_below_those_after_it() -> None:
    partition = Partition(below=True)
    for sequence in (2**31 - 3, 2**31 - 2, 2**31 - 1, *range(5)):
        assert partition.produce(sequence) == ACCEPTED
    assert partition.produce(2**31 - 2) == DUPLICATE
    assert partition.produce(6) == OUT_OF_ORDER


def test_forgotten_producer_that_continues_can_lose_a_record() -> None:
    """Batch 3 is late, batch 4 arrives at a broker that has forgotten the producer.

    Kafka returns 45 OUT_OF_ORDER_SEQUENCE_NUMBER for the late one, and the client sends it again in
    a new epoch. As a duplicate it would be acknowledged but never written. With
    59 UNKNOWN_PRODUCER_ID for batch 4 the client starts again.
    """
    late = {}
    for rejects, below in ((False, False), (False, True), (True, True)):
        partition = filled(3, rejects, below)
        partition.forget()
        responses = (partition.produce(4), partition.produce(3))
        late[rejects, below] = responses
        assert 3 not in partition.log()
    assert late == {
        (False, False): (ACCEPTED, OUT_OF_ORDER),
        (False, True): (ACCEPTED, DUPLICATE),
        (True, True): (UNKNOWN, UNKNOWN),
    }


FORGET = -1
SCHEDULES = st.lists(st.integers(0, 9), max_size=30)


@given(SCHEDULES, st.booleans(), st.booleans())
def test_repeats_and_reordering_leave_the_log_complete_and_in_order(
    schedule: list[int], rejects: bool, below: bool
) -> None:
    partition = Partition(rejects, below)
    assert partition.produce(0) == ACCEPTED
    acknowledged = {0}
    for sequence in schedule:
        if partition.produce(sequence) in (ACCEPTED, DUPLICATE):
            acknowledged.add(sequence)
    log = partition.log()
    assert log == list(range(len(log)))
    assert acknowledged <= set(log)


@given(st.lists(st.integers(FORGET, 9), max_size=30), st.booleans())
def test_acknowledged_records_are_in_the_log_even_if_producers_are_forgotten(
    schedule: list[int], both: bool
) -> None:
    """For Kafka's rules and for both settings together, not for the second setting alone."""
    partition = Partition(rejects=both, below=both)
    acknowledged = set()
    for sequence in schedule:
        if sequence == FORGET:
            partition.forget()
        elif partition.produce(sequence) in (ACCEPTED, DUPLICATE):
            acknowledged.add(sequence)
    assert acknowledged <= set(partition.log())
    assert partition.bench.now >= START
