"""Timelines of share groups in recordings of real brokers (KIP-932)."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from tests.support import audits
from tests.support.share_exchanges import GROUP, Shares


def entries(group: str) -> dict[str, TimelineEntry]:
    story = GroupTimeline(audits.exchanges("share_fetch"), group).story()
    return {each.id.rpartition(":")[2]: each for each in story}


def test_redelivered_records_have_their_former_member() -> None:
    reported = entries("sf-locks")
    assert (
        reported["82"]
        .notes[0]
        .startswith(
            "sf-u-0 0 to 7: delivery 2; before, member-a got it by client tester's SHARE_FETCH"
        )
    )
    assert reported["82"].notes[0].endswith("and did not acknowledge it in time")
    assert "and gave it back by" in reported["88"].notes[0]
    assert "share_fetch.jsonl:87" in reported["88"].notes[0]
    assert reported["89"].notes == ["gives back sf-u-0 0 to 7"]


def test_a_batch_with_an_outcome_for_each_record() -> None:
    """Lines 48 and 51: offsets 5 to 9 are accepted, released, rejected, accepted, released."""
    reported = entries("sf")
    assert reported["48"].notes == [
        "gives back sf-t-0 6",
        "rejects sf-t-0 7",
        "gives back sf-t-0 9",
    ]
    assert [note.partition(":")[0] for note in reported["51"].notes] == ["sf-t-0 6", "sf-t-0 9"]
    assert all("share_fetch.jsonl:48" in note for note in reported["51"].notes)


def test_refused_acknowledgement_has_the_new_member_of_the_records() -> None:
    (refused,) = entries("sf")["47"].refused
    assert refused.code == Error.INVALID_RECORD_STATE
    assert refused.because.startswith("sf-t-0 3 to 4 went to member member-b: client tester's")


def test_end_of_a_session_releases_the_records_of_the_member() -> None:
    reported = entries("sf-close")
    assert reported["118"].notes == ["closes its share session, and gives back what it has"]
    assert all("share_fetch.jsonl:118" in note for note in reported["119"].notes)
    assert reported["120"].refused[0].because.startswith("The member has closed it:")


def test_first_deliveries_and_acknowledgements_that_went_well_are_left_out() -> None:
    shares = Shares()
    shares.give("a", (0, 4, 1))
    shares.acknowledge("a", 0, 4, 1)
    assert GroupTimeline(shares.exchanges, GROUP).story() == []


def test_unrecorded_delivery_accuses_no_member() -> None:
    shares = Shares()
    shares.give("a", (0, 4, 1))
    shares.give("b", (0, 4, 3))
    (entry,) = GroupTimeline(shares.exchanges, GROUP).story()
    assert entry.notes == ["orders-0 0 to 4: delivery 3"]


def test_records_of_several_former_members() -> None:
    shares = Shares()
    shares.give("a", (0, 4, 1))
    shares.give("b", (5, 9, 1))
    shares.give("c", (3, 6, 2))
    (entry,) = GroupTimeline(shares.exchanges, GROUP).story()
    assert [note.partition(" got")[0] for note in entry.notes] == [
        "orders-0 5 to 6: delivery 2; before, b",
        "orders-0 3 to 4: delivery 2; before, a",
    ]


def test_release_whose_response_comes_after_the_delivery() -> None:
    shares = Shares()
    shares.give("a", (0, 4, 1))
    shares.acknowledge("a", 0, 4, 2, at=5000, end=5100)
    shares.give("b", (0, 4, 2), at=5001)
    reported = GroupTimeline(shares.exchanges, GROUP).story()
    assert "gave it back by client a's SHARE_ACKNOWLEDGE" in reported[1].notes[0]
