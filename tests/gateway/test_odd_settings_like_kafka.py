"""Rare broker settings: compare the responses with a real broker's."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.frames import decode_response
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from tests.gateway.test_share_sessions_like_kafka import SHARE_FETCH, Members
from tests.support.gateways import running_gateway
from tests.support.goldens import golden, real_broker, source_of
from tests.support.walk_sides import Step, both_sides

pytestmark = pytest.mark.compares

SESSIONS, PARTITIONS = 10, 10
SETTINGS = {
    "group.share.max.share.sessions": str(SESSIONS),
    "group.share.max.size": str(SESSIONS),
    "transaction.partition.verification.enable": "false",
}
OF_OURS = {"offsets.topic.num.partitions": str(PARTITIONS)}
"""Settings of the real broker of other tests."""

FULL = 133
TOPIC, GROUP, OTHER, WRITER = "odd-settings", "odd-settings", "odd-other", "odd-writer"
PRODUCER = 1_000_000
"""A producer id that was never assigned."""

LONG = "x" * 4_097


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with real_broker(tmp_path_factory.mktemp("odd") / "broker", SETTINGS) as address:
        yield address


def full(members: Members) -> Iterator[object]:
    """Open the maximum number of sessions; existing ones may be reopened or closed."""
    connection = members.connect()
    names = [f"member {at}" for at in range(SESSIONS)]
    yield [members.fetch(connection, name) for name in names]
    members.ask(connection, "late", 200)
    yield decode_response(SHARE_FETCH, 2, connection.receive())[1]
    yield members.reopen(connection, names[0]), members.fetch(connection, names[1])
    yield members.reopen(connection, "late"), members.end(connection, names[0])
    yield members.reopen(connection, "late"), members.reopen(connection, names[0])


def responses_when_full(address: Address) -> list[object]:
    with ExitStack() as stack:
        return list(full(Members(address, stack, full)))


def test_share_sessions_are_limited(real: Address) -> None:
    theirs = golden(
        "share_sessions/full",
        lambda: responses_when_full(real),
        scenario=source_of(full, Members),
        settings=SETTINGS,
    )
    with running_gateway(SETTINGS) as gateway:
        assert responses_when_full(gateway.addresses[1]) == theirs
    assert theirs[2:] == [([], []), (FULL, []), ([], FULL)]


def offsets(
    epoch: int,
    *metadata: str,
    version: int = 3,
    group: str = GROUP,
    producer_id: int = PRODUCER,
) -> Step:
    """Commit a producer's offsets, for as many partitions as have metadata."""
    partitions = [
        {"partitionIndex": at, "committedOffset": 5, "committedMetadata": each}
        for at, each in enumerate(metadata)
    ]
    body: dict[str, Any] = {"transactionalId": WRITER, "groupId": group}
    body |= {"producerId": producer_id, "producerEpoch": epoch, "generationId": -1}
    body |= {"memberId": "", "groupInstanceId": None}
    body["topics"] = [{"name": TOPIC, "partitions": partitions}]
    return Step("TXN_OFFSET_COMMIT", version, body)


def marker(epoch: int, coordinator_epoch: int, is_commit: bool = False) -> Step:
    topic = {"name": GROUP_TOPIC, "partitionIndexes": [partition_for(GROUP, PARTITIONS)]}
    fields = {"producerId": PRODUCER, "producerEpoch": epoch, "transactionResult": is_commit}
    fields |= {"coordinatorEpoch": coordinator_epoch, "topics": [topic]}
    return Step("WRITE_TXN_MARKERS", 1, {"markers": [fields]})


def committed(group: str) -> Step:
    body = {"groupId": group, "memberId": None, "memberEpoch": -1, "topics": None}
    return Step("OFFSET_FETCH", 8, {"groups": [body], "requireStable": True})


DELETION = Step("DELETE_GROUPS", 2, {"groupsNames": [OTHER]})
OLD_EPOCHS = [
    *(offsets(epoch, "a") for epoch in (0, 3)),
    *(offsets(2, *metadata) for metadata in (("a", LONG), (LONG,))),
    *(offsets(2, "a", version=version) for version in (0, 2, 4, 5)),
    offsets(-1, "a"),
    *(marker(*epochs) for epochs in ((1, 0), (3, 5), (4, 3), (4, 6))),
    *(offsets(epoch, "b") for epoch in (3, 4)),
    *(offsets(epoch, "b", version=5) for epoch in (4, 5)),
    committed(GROUP),
    marker(4, 6, is_commit=True),
    committed(GROUP),
    offsets(3, "c"),
    *(DELETION, offsets(0, LONG, group=OTHER), DELETION, DELETION),
    *(offsets(-1, "d", group=OTHER, producer_id=-1), committed(OTHER), DELETION),
]


def test_partition_of_groups_accepts_old_epochs_without_verification(real: Address) -> None:
    with both_sides(real, "requests/old_epochs", {TOPIC: 2}, SETTINGS | OF_OURS) as sides:
        for side in sides:
            side.begin([GROUP, OTHER], {})
            side.begin_transactions(WRITER)
        for step in OLD_EPOCHS:
            ours, theirs = (side.response(step, []) for side in sides)
            assert ours == theirs, step
