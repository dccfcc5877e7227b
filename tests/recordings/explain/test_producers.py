"""Timelines of producers in recordings of real brokers, and in invented ones."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.replay.recording import Exchange, read
from brokertwin.state.logs.producer import SEQUENCE_MAX
from tests.support.machine import header
from tests.support.sources import ROOT
from tests.support.synthetic_recording import exchange

CAPTURES = ROOT / "tests" / "captures"
NAME, ID = "orders-tx", 7


class History:
    """A recording made up, an exchange each second."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def add(self, client: str, api: str, request: Any, response: Any) -> None:
        number = len(self.exchanges)
        made = exchange(1000 * number, client, api, request, response)
        self.exchanges.append(msgspec.structs.replace(made, id=f"h:{number + 1}"))

    def init(self, client: str, epoch: int, error: int = 0) -> None:
        response = {"errorCode": error, "producerId": ID, "producerEpoch": epoch}
        if error:
            response |= {"producerId": -1, "producerEpoch": -1}
        request = {"transactionalId": NAME, "producerId": -1, "producerEpoch": -1}
        self.add(client, "INIT_PRODUCER_ID", request, response)

    def end(self, client: str, epoch: int, error: int) -> None:
        request = {"transactionalId": NAME, "producerId": ID, "producerEpoch": epoch}
        self.add(client, "END_TXN", request | {"committed": True}, {"errorCode": error})

    def produce(
        self, client: str, epoch: int, first: int, count: int = 1, error: int = 0, offset: int = 0
    ) -> None:
        batch = header(count, ID, epoch, first)
        sent = [{"name": "orders", "partitionData": [{"index": 0, "batches": [batch]}]}]
        became = {"index": 0, "errorCode": error, "baseOffset": -1 if error else offset}
        items = [{"name": "orders", "partitionResponses": [became]}]
        request = {"transactionalId": None, "acks": -1, "topicData": sent}
        self.add(client, "PRODUCE", request, {"responses": items})

    def story(self, key: str = str(ID)) -> list[TimelineEntry]:
        return ProducerTimeline(self.exchanges, key).story()


def because(entry: TimelineEntry) -> str:
    (refused,) = entry.refused
    return refused.because


def test_fencing_has_the_client_with_the_newer_epoch() -> None:
    """As people ask it: https://issues.apache.org/jira/browse/KAFKA-10635."""
    history = History()
    history.init("first", 1)
    history.init("second", 2)
    history.produce("first", 1, 0, error=Error.INVALID_PRODUCER_EPOCH)
    _, bumped, refused = history.story()
    assert bumped.notes == [f"bumped epoch 1 of producer {ID} to 2"]
    assert [each.name for each in refused.refused] == ["INVALID_PRODUCER_EPOCH"]
    assert because(refused) == (
        "client second's INIT_PRODUCER_ID at 12:00:01.000 (h:2) bumped the epoch to 2;"
        " client first has 1."
    )


def test_fencing_client_waits_for_the_abort_first() -> None:
    history = History()
    history.init("first", 0)
    history.init("second", -1, Error.CONCURRENT_TRANSACTIONS)
    history.end("first", 0, Error.INVALID_PRODUCER_EPOCH)
    assert "client second's INIT_PRODUCER_ID at 12:00:01.000 (h:2) has fenced it" in because(
        history.story(NAME)[2]
    )


def test_successful_init_ends_the_fencing() -> None:
    """A fencing that had to wait ends when its producer gets the epoch."""
    history = History()
    history.init("first", 0)
    history.init("second", -1, Error.CONCURRENT_TRANSACTIONS)
    history.init("second", 2)
    history.end("second", 2, Error.INVALID_PRODUCER_EPOCH)
    assert "may have timed out (transaction.timeout.ms)" in because(history.story(NAME)[3])


def test_newer_epoch_that_is_not_recorded() -> None:
    history = History()
    history.init("first", 0)
    history.end("first", 0, Error.INVALID_PRODUCER_EPOCH)
    history.end("first", 3, Error.PRODUCER_FENCED)
    _, timed_out, ahead = history.story()
    assert "may have timed out (transaction.timeout.ms)" in because(timed_out)
    never = "client first has epoch 3, which no recorded response gave: the last one is 0"
    assert never not in because(ahead), "another broker's log may have it"
    brokers = [{"nodeId": 1, "host": "localhost", "port": 9092, "rack": None}]
    history.add("first", "METADATA", {"topics": []}, {"brokers": brokers, "topics": []})
    assert never in because(history.story()[2])


def test_log_shows_a_newer_epoch_first() -> None:
    history = History()
    history.produce("first", 1, 0)
    history.produce("first", 0, 1, error=Error.INVALID_PRODUCER_EPOCH)
    assert because(history.story()[1]) == (
        "client first's PRODUCE at 12:00:00.000 (h:1) wrote to orders-0 in epoch 1; this is 0."
    )


@pytest.mark.parametrize(
    ("written", "epoch", "first", "message"),
    [
        ([(0, 3)], 0, 10, "ends at sequence 2, by client first's PRODUCE at 12:00:00.000 (h:1)"),
        ([(0, 3)], 0, 10, "this batch begins at 10: 7 records in between are not in the log."),
        ([(0, 3), (3, 3)], 0, 4, "It goes back: orders-0 ends at sequence 5"),
        ([(0, 3)], 1, 4, "The epoch is new (1 after 0), so the batch has to begin at 0"),
        ([], 0, 4, "the recording has none of producer 7 before it in orders-0"),
        ([(SEQUENCE_MAX - 1, 3)], 0, 4, "ends at sequence 0"),
        ([(SEQUENCE_MAX - 1, 3)], 0, 4, "3 records in between"),
        ([(0, 3)], 0, SEQUENCE_MAX, "It goes back"),
    ],
)
def test_causes_of_out_of_order_sequences(
    written: list[tuple[int, int]], epoch: int, first: int, message: str
) -> None:
    history = History()
    for sequence, count in written:
        history.produce("first", 0, sequence, count)
    history.produce("first", epoch, first, error=Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert message in because(history.story()[-1])


def test_a_repeat_is_seen_and_five_batches_are_kept_of_an_epoch() -> None:
    history = History()
    for sequence in range(7):
        history.produce("first", 0, sequence, offset=sequence)
    history.produce("first", 0, 6, offset=6)
    found = ProducerTimeline(history.exchanges, str(ID))
    assert found.story()[-1].notes == [
        "a repeat of client first's PRODUCE at 12:00:06.000 (h:7): it is in the log once"
    ]
    five = ", ".join(f"{each} to {each} at offset {each}" for each in range(2, 7))
    assert found.ending() == [f"producer {ID}, last sequences in orders-0: {five}"]
    history.produce("first", 1, 0, offset=7)
    assert ProducerTimeline(history.exchanges, str(ID)).ending() == [
        f"producer {ID}, last sequences in orders-0: 0 to 0 at offset 7"
    ]


def test_a_name_and_its_id_have_one_story() -> None:
    history = History()
    history.init("first", 0)
    history.produce("first", 0, 0)
    history.add("other", "INIT_PRODUCER_ID", {"transactionalId": None}, {"errorCode": 53})
    assert history.story(NAME) == history.story(str(ID))
    assert [entry.id for entry in history.story(NAME)] == ["h:1", "h:2"]


def test_unknown_producer_lists_the_existing_ones() -> None:
    history = History()
    history.init("first", 0)
    with pytest.raises(UserError, match="The recording has no producer payments") as error:
        history.story("payments")
    assert f"It has {NAME}." in str(error.value)
    with pytest.raises(UserError, match="It has no producers at all"):
        ProducerTimeline([], "payments")


def recorded(name: str) -> list[Exchange]:
    return read([Path(CAPTURES / f"{name}.jsonl.gz")]).exchanges


def test_every_fencing_of_a_recording_has_its_cause() -> None:
    story = ProducerTimeline(recorded("txn_fencing_ck"), "txn_fencing_ck.14.txn-0").story()
    fenced = [entry for entry in story if any(each.code == 47 for each in entry.refused)]
    assert len(fenced) == 4
    for entry in fenced:
        assert entry.client == "first"
        assert because(entry).startswith("client second's INIT_PRODUCER_ID at ")


def test_every_out_of_order_sequence_of_a_recording_is_explained() -> None:
    story = ProducerTimeline(recorded("raw_produce_errors"), "18").story()
    reported = [
        each.because
        for entry in story
        for each in entry.refused
        if each.code == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    ]
    assert len(reported) == 6
    assert all(reported)
    assert sum("It goes back" in each for each in reported) == 4
    assert sum("records in between" in each for each in reported) == 1
