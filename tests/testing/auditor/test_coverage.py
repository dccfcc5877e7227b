"""Parts of a run that were not covered: the message names the first missing step."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from brokertwin.clients.consumer_protocol import encode_assignment
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.testing.auditor.coverage import uncovered
from brokertwin.testing.auditor.workload import (
    HEIR,
    MEMBERS,
    PRODUCER,
    SHARERS,
    ZOMBIE,
    ProcessRole,
    RunEvidence,
    RunNames,
    statements,
)

Body = dict[str, Any]

NAMES = RunNames("topic", "output", "group", "id")
PLACE = TopicPartition("topic", 0)
COUNT = 20
MEMBER, SHARER = MEMBERS[0], SHARERS[0]


def sent(role: ProcessRole, api: str, request: Body | None = None, **response: Any) -> Body:
    header = {"requestApiKeyName": api, "clientId": role.name}
    return {"time": 0, "requestHeader": header, "request": request or {}, "response": response}


def given(*places: TopicPartition) -> Body:
    data = base64.b64encode(encode_assignment(places)).decode()
    return sent(MEMBER, "SYNC_GROUP", assignment=data)


JOINED = sent(MEMBER, "JOIN_GROUP", {"groupId": "group"}, errorCode=0, generationId=1)
ASSIGNED = given(PLACE)
FETCHED = sent(MEMBER, "FETCH")
SHARED = sent(
    SHARER,
    "SHARE_GROUP_HEARTBEAT",
    {"groupId": "group-share"},
    assignment={"topicPartitions": [{"partitions": [0]}]},
)
INITIALIZED, FOLLOWED = (
    sent(role, "INIT_PRODUCER_ID", {"transactionalId": "id"}) for role in (ZOMBIE, HEIR)
)
FENCED = sent(ZOMBIE, "END_TXN", errorCode=Error.PRODUCER_FENCED)


def found(
    roles: Sequence[ProcessRole], exchanges: Sequence[Body], lines: Sequence[str] = (), **more: Any
) -> list[str]:
    """Return what a run with a visible record does not cover; the first role has the lines."""
    made = {role.name: list(statements(lines if role is roles[0] else ())) for role in roles}
    evidence = RunEvidence(
        topic="topic",
        count=COUNT,
        roles=list(roles),
        statements=made,
        exchanges=list(exchanges),
        logs={},
        committed={PLACE: [(0, "a")]},
    )
    for name, value in more.items():
        setattr(evidence, name, value)
    return list(uncovered(evidence, NAMES))


@pytest.mark.parametrize(
    ("exchanges", "text"),
    [
        ([], "sent no request with its client id (EXAM_NAME)"),
        ([FETCHED], "did not join group (EXAM_GROUP)"),
        ([sent(MEMBER, "JOIN_GROUP", {"groupId": "own"})], "did not join group (EXAM_GROUP)"),
        ([JOINED], "joined its group, but received no partition"),
        ([JOINED, given()], "joined its group, but received no partition"),
        ([JOINED, ASSIGNED], "received partitions, but sent no FETCH"),
        ([JOINED, ASSIGNED, FETCHED], "sent FETCH, but printed no line `read …`"),
    ],
)
def test_the_first_step_that_a_member_missed_is_named(exchanges: list[Body], text: str) -> None:
    assert found([MEMBER], exchanges) == [f"member-1 {text}"]


def test_a_member_that_joined_and_read_covers_its_part() -> None:
    assert found([MEMBER], [JOINED], ["read 0 0 a"]) == []
    assert found([PRODUCER], []) == []


def test_a_member_that_reads_outside_its_group_covers_no_rebalance() -> None:
    assert found([MEMBER], [FETCHED], ["read 0 0 a"]) == [
        "member-1 did not join group (EXAM_GROUP)"
    ]


def test_the_steps_of_share_consumers_have_their_own_names() -> None:
    assert found([SHARER], [SHARED]) == ["sharer-1 received partitions, but sent no SHARE_FETCH"]
    fetched = sent(SHARER, "SHARE_FETCH")
    assert "no line `received …`" in found([SHARER], [SHARED, fetched])[0]
    assert found([SHARER], [SHARED, fetched], ["received 0 0 a"]) == []


def test_readers_without_records_are_not_accused() -> None:
    assert found([MEMBER], [JOINED], committed={PLACE: []}) == [
        "no process has written a record: --work needs produce or transact"
    ]


def test_a_transactional_id_that_no_process_initialized_is_named() -> None:
    other = sent(ZOMBIE, "INIT_PRODUCER_ID", {"transactionalId": "own"})
    assert found([ZOMBIE, HEIR], [other, FENCED, FOLLOWED]) == [
        "zombie did not initialize id (EXAM_TRANSACTIONAL_ID)"
    ]
    assert found([ZOMBIE, HEIR], [INITIALIZED, FOLLOWED, FENCED]) == []


def test_a_zombie_that_is_not_fenced_had_ended_or_stopped() -> None:
    both = [INITIALIZED, FOLLOWED]
    assert found([ZOMBIE, HEIR], both, ["committed 0", "committed 1"]) == [
        "the zombie had ended before its successor began: raise --count"
    ]
    assert found([ZOMBIE, HEIR], both, ["committed 0"]) == [
        "the zombie was not fenced: it ended 1 of 2 transactions"
    ]


def test_the_error_of_a_zombie_is_shown_although_it_may_fail() -> None:
    assert found([ZOMBIE], [], gave_up={"zombie": "no such class"}) == [
        "zombie sent no request with its client id (EXAM_NAME); it gave up: no such class"
    ]
