"""The story of a client, of what recorded brokers answered."""

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.clients import ClientTimeline
from brokertwin.recordings.history.bodies import refused_topics
from brokertwin.wording import some
from tests.support import audits
from tests.support.synthetic_recording import SyntheticRecording, exchange


def client(capture: str, key: str) -> ClientTimeline:
    return ClientTimeline(audits.exchanges(capture), key)


def test_timeline_has_its_producers_and_the_clients_that_fenced_them() -> None:
    found = client("txn_fencing_ck", "first")
    story = found.story()
    assert {entry.client for entry in story} == {"first"}
    fenced = [each for entry in story for each in entry.refused if each.code != 51]
    assert {each.code for each in fenced} == {Error.INVALID_PRODUCER_EPOCH}
    assert all(each.because.startswith("client second's INIT_PRODUCER_ID") for each in fenced)
    assert found.producers == ["txn_fencing_ck.14.txn-0", "txn_fencing_ck.14.txn-1"]
    assert "refused: INVALID_PRODUCER_EPOCH 8" in found.ending()


def test_other_requests_are_listed_if_refused() -> None:
    """Of 54 requests of an admin client: its commits go back, a topic has a name that none has."""
    found = client("admin_kp", "kp-admin")
    story = found.story()
    assert any("goes back from 23" in note for entry in story for note in entry.notes)
    by_api = {entry.api for entry in story if entry.refused}
    assert {"CREATE_TOPICS", "DELETE_RECORDS", "OFFSET_COMMIT"} <= by_api
    assert len({entry.id for entry in story}) == len(story) < 30
    created = [each.said for each in story if each.api == "CREATE_TOPICS" and each.refused]
    assert created[:2] == ["admin_kp.15.t0", "bad name!"]


def test_an_offset_out_of_range_has_the_deletion_that_its_partition_shows() -> None:
    found = client("offset_reset", "ck-consumer")
    refused = [each for entry in found.story() for each in entry.refused]
    because = [each.because for each in refused if each.code == Error.OFFSET_OUT_OF_RANGE]
    assert len(because) == 6
    assert because[0].startswith("offset_reset.11.events-0: Offset 2 was requested; client admin's")
    assert "DELETE_RECORDS at 00:51:41.501 (offset_reset.jsonl:44) deleted" in because[0]
    assert found.topics > {"offset_reset.11.events"}
    last = "explain partition TOPIC-N tells the whole story of offset_reset.11.events-0, "
    assert any(each.startswith(last) for each in found.ending())


def test_only_errors_that_depend_on_partitions_name_a_partition() -> None:
    """It was refused for a fenced producer, and for a deleted topic by an API of groups."""
    assert client("txn_fencing_ck", "first").partitions == []
    assert client("topic_regexes", "raw").partitions == []


def test_topics_of_an_error_are_found_by_both_names_and_cut_after_some() -> None:
    part = {"name": "orders", "resultsByPartition": [{"partitionErrorCode": 29}]}
    assert list(refused_topics({"resultsByTopicV3AndBelow": [part]})) == ["orders"]
    assert some([str(number) for number in range(5_000)], 8) == "0, 1, 2, 3, 4, 5, 6, 7, …"


def test_request_in_two_timelines_is_listed_once() -> None:
    """A commit within a transaction is of a producer and of a group."""
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.commit(7, api="TXN_OFFSET_COMMIT")
    recording.commit(5, api="TXN_OFFSET_COMMIT")
    entries = ClientTimeline(recording.exchanges, "a").story()
    assert [entry.api for entry in entries] == ["INIT_PRODUCER_ID", *["TXN_OFFSET_COMMIT"] * 2]
    assert "producer 7 epoch 0" in entries[2].said
    assert "orders-0 at 5" in entries[2].said
    assert entries[2].notes[0].startswith("orders-0 goes back from 7")


def test_lost_fetch_session_has_its_last_user() -> None:
    recording = SyntheticRecording()
    recording.fetch("a", 0, 0, 10)
    recording.fetch("b", 0, 0, 11)
    recording.fetch("a", 10, 1, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    *_, last = ClientTimeline(recording.exchanges, "a").story()
    assert "Sessions that were opened in between: client b (1)." in last.refused[0].because


def test_a_response_within_a_millisecond_counts_in_the_median() -> None:
    recording = SyntheticRecording()
    told = []
    for latency_ms in (0.0, 0.0, 4.0, *[-1.0] * 4):
        recording.init("a", 0)
        told.append(
            msgspec.structs.replace(recording.exchanges[-1], is_text=True, latency_ms=latency_ms)
        )
    shown = "INIT_PRODUCER_ID: 7 requests, median 0 ms, longest 4 ms"
    assert shown in ClientTimeline(told, "a").ending()


def test_a_wait_for_quotas_is_told_from_one_millisecond_on() -> None:
    recording = SyntheticRecording()
    for wait_ms in (0, 1):
        recording.add("a", "METADATA", {}, {"throttleTimeMs": wait_ms})
    (entry,) = ClientTimeline(recording.exchanges, "a").story()
    assert (entry.id, entry.notes) == ("h:1000", ["told to wait 1 ms for its quotas"])


def test_unknown_client_lists_the_existing_ones() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    with pytest.raises(UserError, match="has no client b"):
        ClientTimeline(recording.exchanges, "b")


def cut_off(connections: int, longer: int, every_ms: int) -> list[str]:
    """The ending of a client with connections that end after Metadata, and with longer ones."""
    exchanges = []
    for number in range(connections + longer):
        apis = ["API_VERSIONS", "METADATA"] + ["PRODUCE"] * (number >= connections)
        for turn, api in enumerate(apis):
            each = exchange(number * every_ms + turn, "old", api, {}, {})
            exchanges.append(msgspec.structs.replace(each, connection=f"c{number}"))
    return ClientTimeline(exchanges, "old").ending()


@pytest.mark.parametrize(
    ("connections", "longer", "every_ms", "is_said"),
    [(10, 0, 100, True), (9, 0, 100, False), (10, 2, 100, False), (10, 0, 3_000, False)],
)
def test_connections_that_end_after_the_same_requests_are_unknown_and_shown(
    connections: int, longer: int, every_ms: int, is_said: bool
) -> None:
    lines = cut_off(connections, longer, every_ms)
    said = [line for line in lines if line.startswith("unknown: ")]
    assert bool(said) is is_said
    if is_said:
        assert said[0].startswith(
            "unknown: 10 of 10 connections in 1 s ended after API_VERSIONS, METADATA; the log does"
        )
