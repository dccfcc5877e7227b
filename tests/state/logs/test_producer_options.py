"""Two settings beside Kafka's rules, both from the seed: what each gains, and what it costs.

brokertwin.reject.unknown.producer      59 for an unknown producer that does not begin at 0
brokertwin.duplicates.below.expected    below the next expected sequence all is a duplicate
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.errors import Error
from tests.support.machine import START, Bench, header

DAY = 86_400_000
ACCEPTED, OUT_OF_ORDER, DUPLICATE, UNKNOWN = 0, 45, 46, 59


class Partition:
    """One partition, its log as (first sequence, records) of every batch that was appended."""

    def __init__(self, rejects: bool = False, below: bool = False) -> None:
        self.bench = Bench(
            brokertwin_reject_unknown_producer=rejects,
            brokertwin_duplicates_below_expected=below,
        )
        self.bench.topic("orders")

    def answer(self, sequence: int, count: int = 1, epoch: int = 0) -> dict[str, Any]:
        batch = header(count, 7, epoch, sequence, maxTimestamp=self.bench.now)
        return self.bench.append("orders", batch, version=12)

    def produce(self, sequence: int, count: int = 1, epoch: int = 0) -> int:
        return int(self.answer(sequence, count, epoch)["errorCode"])

    def log(self) -> list[int]:
        """The sequences of the records in the log, in order."""
        appended = [e["record"] for e in self.bench.records() if "batch" in e["record"]]
        batches = [record["batch"] for record in appended]
        return [batch["baseSequence"] + n for batch in batches for n in range(batch["recordCount"])]

    def forget(self) -> None:
        """Lets the producer expire."""
        self.bench.tick(2 * DAY)

    def delete_records(self, offset: int) -> None:
        partition = {"partitionIndex": 0, "offset": offset}
        body = {"topics": [{"name": "orders", "partitions": [partition]}]}
        answer = self.bench.request("DELETE_RECORDS", 2, body)
        assert answer["topics"][0]["partitions"][0]["errorCode"] == 0


def filled(batches: int, rejects: bool = False, below: bool = False) -> Partition:
    partition = Partition(rejects, below)
    for sequence in range(batches):
        assert partition.produce(sequence) == ACCEPTED
    return partition


def test_example_11_an_unknown_producer_begins_anywhere_or_is_refused() -> None:
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


def test_deleted_records_take_their_producer_along_only_where_unknown_ones_are_refused() -> None:
    for rejects, expected in ((False, ACCEPTED), (True, UNKNOWN)):
        partition = filled(3, rejects=rejects)
        partition.delete_records(2)
        assert partition.produce(3) == ACCEPTED, "a record is left"
        partition.delete_records(4)
        answer = partition.answer(4)
        assert answer["errorCode"] == expected
        assert answer["logStartOffset"] == 4, "by which the client sees that nothing was lost"


def test_six_in_flight_five_are_remembered_and_the_first_is_out_of_order_for_ever() -> None:
    """The seed's example: six batches arrive, the answer to the first is lost."""
    kafka, below = filled(6), filled(6, below=True)
    assert [kafka.produce(0) for _ in range(3)] == [OUT_OF_ORDER] * 3
    assert below.produce(0) == DUPLICATE
    assert below.log() == kafka.log() == list(range(6))


def test_the_last_five_are_answered_as_the_first_time_under_either_rule() -> None:
    for below in (False, True):
        partition = filled(6, below=below)
        assert [partition.answer(n)["baseOffset"] for n in range(1, 6)] == list(range(1, 6))


def test_it_costs_the_offset_and_the_time_of_the_first_answer() -> None:
    answer = filled(6, below=True).answer(0)
    assert (answer["baseOffset"], answer["logAppendTimeMs"]) == (-1, -1)


def test_records_that_come_in_other_batches_than_before_are_duplicates() -> None:
    """A big batch that was appended, and is sent again in two parts."""
    for below, expected in ((False, OUT_OF_ORDER), (True, DUPLICATE)):
        partition = Partition(below=below)
        assert partition.produce(0, count=4) == ACCEPTED
        assert [partition.produce(n, count=2) for n in (0, 2)] == [expected] * 2
        assert partition.produce(2, count=4) == OUT_OF_ORDER, "half of it is new"


def test_what_lies_above_or_is_of_another_epoch_is_judged_as_in_kafka() -> None:
    partition = filled(6, below=True)
    assert partition.produce(7) == OUT_OF_ORDER
    assert partition.produce(3, epoch=1) == OUT_OF_ORDER
    assert partition.produce(0, epoch=1) == ACCEPTED
    assert partition.produce(0, epoch=0) == Error.INVALID_PRODUCER_EPOCH


def test_sequences_before_the_wrap_lie_below_those_after_it() -> None:
    partition = Partition(below=True)
    for sequence in (2**31 - 3, 2**31 - 2, 2**31 - 1, *range(5)):
        assert partition.produce(sequence) == ACCEPTED
    assert partition.produce(2**31 - 2) == DUPLICATE
    assert partition.produce(6) == OUT_OF_ORDER


def test_it_costs_a_record_where_a_forgotten_producer_goes_on() -> None:
    """Batch 3 is under way and late, batch 4 arrives at a broker that has forgotten the producer.

    Kafka answers the late one 45, and the client sends it again in a new epoch. Who takes it for a
    duplicate acknowledges what was never written. With 59 for batch 4 the client begins anew.
    """
    late = {}
    for rejects, below in ((False, False), (False, True), (True, True)):
        partition = filled(3, rejects, below)
        partition.forget()
        answers = (partition.produce(4), partition.produce(3))
        late[rejects, below] = answers
        assert 3 not in partition.log()
    assert late == {
        (False, False): (ACCEPTED, OUT_OF_ORDER),
        (False, True): (ACCEPTED, DUPLICATE),
        (True, True): (UNKNOWN, UNKNOWN),
    }


FORGET = -1
SCHEDULES = st.lists(st.integers(0, 9), max_size=30)


@given(SCHEDULES, st.booleans(), st.booleans())
def test_whatever_the_network_repeats_and_reorders_the_log_has_it_once_and_in_order(
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
def test_what_is_acknowledged_is_in_the_log_also_when_producers_are_forgotten(
    schedule: list[int], both: bool
) -> None:
    """True of Kafka's rules and of both settings together; not of duplicates below alone."""
    partition = Partition(rejects=both, below=both)
    acknowledged = set()
    for sequence in schedule:
        if sequence == FORGET:
            partition.forget()
        elif partition.produce(sequence) in (ACCEPTED, DUPLICATE):
            acknowledged.add(sequence)
    assert acknowledged <= set(partition.log())
    assert partition.bench.now >= START
