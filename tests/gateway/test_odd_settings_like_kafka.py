"""Settings that only few brokers have: a real broker with them and ours answer alike."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.answers import Address
from brokertwin.gateway.protocol.frames import decode_response
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from tests.gateway.test_share_sessions_like_kafka import SHARE_FETCH, Members
from tests.support.gateways import running_gateway
from tests.support.walk_sides import Step, both_sides

pytestmark = pytest.mark.kafka

SESSIONS, PARTITIONS = 10, 10
SETTINGS = {
    "group.share.max.share.sessions": str(SESSIONS),
    "group.share.max.size": str(SESSIONS),
    "transaction.partition.verification.enable": "false",
}
OF_OURS = {"offsets.topic.num.partitions": str(PARTITIONS)}
"""What a real broker of the tests has, too."""

FULL = 133
TOPIC, GROUP, OTHER, WRITER = "odd-settings", "odd-settings", "odd-other", "odd-writer"
PRODUCER = 1_000_000
"""An id that was given to nobody."""

LONG = "x" * 4_097


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker with these settings."""
    home: Path = tmp_path_factory.mktemp("odd")
    broker = EmbeddedKafka(home / "broker", default_home())
    try:
        yield broker.start(SETTINGS)
    finally:
        broker.stop()


def full(members: Members) -> Iterator[object]:
    """As many sessions as there may be; who has one may begin it anew, or make room."""
    connection = members.connect()
    names = [f"member {at}" for at in range(SESSIONS)]
    yield [members.fetch(connection, name) for name in names]
    members.ask(connection, "late", 200)
    yield decode_response(SHARE_FETCH, 2, connection.receive())[1]
    yield members.reopen(connection, names[0]), members.fetch(connection, names[1])
    yield members.reopen(connection, "late"), members.end(connection, names[0])
    yield members.reopen(connection, "late"), members.reopen(connection, names[0])


def test_there_are_only_so_many_share_sessions(real: str) -> None:
    host, _, port = real.rpartition(":")
    with ExitStack() as stack:
        ours = stack.enter_context(running_gateway(SETTINGS)).addresses[1]
        addresses = ours, Address(host, int(port))
        told = [list(full(Members(address, stack, full))) for address in addresses]
    assert told[0] == told[1]
    assert told[0][2:] == [([], []), (FULL, []), ([], FULL)]


def offsets(
    epoch: int,
    *metadata: str,
    version: int = 3,
    group: str = GROUP,
    producer_id: int = PRODUCER,
) -> Step:
    """Offsets of a producer, for as many partitions as there is metadata."""
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
    told = {"producerId": PRODUCER, "producerEpoch": epoch, "transactionResult": is_commit}
    told |= {"coordinatorEpoch": coordinator_epoch, "topics": [topic]}
    return Step("WRITE_TXN_MARKERS", 1, {"markers": [told]})


def told(group: str) -> Step:
    asked = {"groupId": group, "memberId": None, "memberEpoch": -1, "topics": None}
    return Step("OFFSET_FETCH", 8, {"groups": [asked], "requireStable": True})


DELETION = Step("DELETE_GROUPS", 2, {"groupsNames": [OTHER]})
OLD_EPOCHS = [
    *(offsets(epoch, "a") for epoch in (0, 3)),
    *(offsets(2, *metadata) for metadata in (("a", LONG), (LONG,))),
    *(offsets(2, "a", version=version) for version in (0, 2, 4, 5)),
    offsets(-1, "a"),
    *(marker(*epochs) for epochs in ((1, 0), (3, 5), (4, 3), (4, 6))),
    *(offsets(epoch, "b") for epoch in (3, 4)),
    *(offsets(epoch, "b", version=5) for epoch in (4, 5)),
    told(GROUP),
    marker(4, 6, is_commit=True),
    told(GROUP),
    offsets(3, "c"),
    *(DELETION, offsets(0, LONG, group=OTHER), DELETION, DELETION),
    *(offsets(-1, "d", group=OTHER, producer_id=-1), told(OTHER), DELETION),
]


def test_where_nobody_verifies_a_groups_partition_knows_old_epochs(real: str) -> None:
    with both_sides(real, {TOPIC: 2}, SETTINGS | OF_OURS) as sides:
        for side in sides:
            side.begin([GROUP, OTHER], {})
            side.begin_transactions(WRITER)
        for step in OLD_EPOCHS:
            ours, theirs = (side.answer(step, []) for side in sides)
            assert ours == theirs, step
