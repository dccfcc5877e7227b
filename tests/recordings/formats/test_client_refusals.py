"""Refusals in words, as Java clients at INFO, Python clients and kafka-go log them."""

import time
from pathlib import Path

import pytest

from brokertwin.cli.recordings.explain import Where, _clients, _groups
from brokertwin.errors import UserError
from brokertwin.recordings.formats import client_logs, client_refusals

G = "Generation{generationId=13, memberId='m-1', protocol='range'}"
C = "[Consumer clientId=reader-a, groupId=parcels]"
P = "[Producer clientId=reader-a, transactionalId=billing]"
LINES = """\
HEARTBEAT 27 | C Attempt to heartbeat failed since group is rebalancing
HEARTBEAT 25 | C Attempt to heartbeat failed for since member id consumer-1-x is not valid.
HEARTBEAT 22 | C Attempt to heartbeat failed since generation 5 is not current
HEARTBEAT 25 | C Attempt to heartbeat with {G} and group instance id Optional.empty failed due \
to UNKNOWN_MEMBER_ID, resetting generation
JOIN_GROUP 79 | C JoinGroup failed due to non-fatal error: MEMBER_ID_REQUIRED. Will set the \
member id as m-1 and then rejoin. Sent generation was Generation{generationId=-1, memberId='', \
protocol='null'}
JOIN_GROUP 25 | C JoinGroup failed: The coordinator is not aware of this member. Need to re-join \
the group. Sent generation was {G}
JOIN_GROUP 16 | C JoinGroup failed: This is not the correct coordinator. Marking coordinator \
unknown. Sent generation was {G}
JOIN_GROUP 82 | C JoinGroup failed: The group instance id Optional[i-1] has been fenced by \
another instance. Sent generation was {G}
JOIN_GROUP 81 | C JoinGroup failed due to fatal error: The consumer group has reached its max \
size.
SYNC_GROUP 27 | C SyncGroup failed: The group began another rebalance. Need to re-join the \
group. Sent generation was {G}
SYNC_GROUP 25 | C SyncGroup failed: The coordinator is not aware of this member. Need to re-join \
the group. Sent generation was {G}
LEAVE_GROUP 25 | C LeaveGroup request with {G} failed with error: The coordinator is not aware \
of this member.
FIND_COORDINATOR 15 | C Group coordinator lookup failed: The coordinator is not available.
OFFSET_COMMIT 25 | C Offset commit failed on partition orders-0 at offset 5: The coordinator is \
not aware of this member.
OFFSET_COMMIT 22 | C OffsetCommit failed with {G}: Specified group generation id is not valid.
OFFSET_COMMIT 3 | C Offset commit failed on partition orders-0 at offset 5: This server does not \
host this topic-partition.
OFFSET_COMMIT 7 | C Offset commit failed on partition orders-0 at offset 5: The request timed out.
CONSUMER_GROUP_HEARTBEAT 110 | C ConsumerGroupHeartbeatRequest failed for member m because epoch \
5 is fenced.
CONSUMER_GROUP_HEARTBEAT 25 | C GroupHeartbeatRequest failed because member m is unknown.
CONSUMER_GROUP_HEARTBEAT 111 | C ConsumerGroupHeartbeatRequest failed due to unreleased instance \
id i-1: Static member m with instance id i-1 cannot join
CONSUMER_GROUP_HEARTBEAT 16 | C ConsumerGroupHeartbeatRequest failed because the group \
coordinator Optional[b:1 (id: 2147483646 rack: null)] is incorrect. Will attempt to find the \
coordinator again and retry in 0ms
CONSUMER_GROUP_HEARTBEAT 112 | C ConsumerGroupHeartbeatRequest failed due to \
UNSUPPORTED_ASSIGNOR: x
SHARE_GROUP_HEARTBEAT 25 | C ShareGroupHeartbeatRequest failed because member m is unknown.
FETCH 71 | C Node 1 was unable to process the fetch request with (sessionId=1201, epoch=33): \
INVALID_FETCH_SESSION_EPOCH.
FETCH 70 | C Node 1 was unable to process the fetch request with (sessionId=1201, epoch=33): \
FETCH_SESSION_ID_NOT_FOUND.
FETCH 1 | C Fetch position FetchPosition(43) \
is out of range for partition orders-0, resetting offset
FETCH 1 | C Fetch offset 43 is out of range for partition orders-0, resetting offset
FETCH 3 | C Received unknown topic or partition error in fetch for partition orders-0
LIST_OFFSETS 3 | C Received unknown topic or partition error in ListOffset request for partition \
orders-0
PRODUCE 6 | C Got error produce response with correlation id 4928 on topic-partition \
__mongodb_heartbeats-0, retrying (2147483646 attempts left). Error: NOT_LEADER_OR_FOLLOWER
PRODUCE 45 | C Got error produce response with correlation id 4928 on topic-partition o-0, \
retrying (2147483646 attempts left). Error: OUT_OF_ORDER_SEQUENCE_NUMBER
none | C Got error produce response with correlation id 4928 on topic-partition o-0, retrying \
(2147483646 attempts left). Error: NETWORK_EXCEPTION. Error Message: Disconnected from node 0
METADATA 5 | C Error while fetching metadata with correlation id 1 : {orders=LEADER_NOT_AVAILABLE}
METADATA 3 | C The metadata response from the cluster reported a recoverable issue with \
correlation id 3 : {orders=UNKNOWN_TOPIC_OR_PARTITION}
unknown API 90 | P Transiting to fatal error state due to \
org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer with the same \
transactionalId which fences the current one.
unknown API 47 | P Transiting to fatal error state due to \
org.apache.kafka.common.errors.ProducerFencedException: Producer attempted an operation with an \
old epoch. Either there is a newer producer with the same transactionalId, or the producer's \
transaction has been expired by the broker.
unknown API 47 | P Transiting to abortable error state due to \
org.apache.kafka.common.errors.InvalidProducerEpochException: Producer attempted to produce with \
an old epoch.
unknown API 49 | P Transiting to fatal error state due to \
org.apache.kafka.common.errors.InvalidPidMappingException: The producer attempted to use a \
producer id which is not currently assigned to its transactional id.
unknown API 53 | P Transiting to fatal error state due to \
org.apache.kafka.common.errors.TransactionalIdAuthorizationException
TXN_OFFSET_COMMIT 22 | P Transiting to abortable error state due to \
org.apache.kafka.clients.consumer.CommitFailedException: Transaction offset Commit failed due to \
consumer group metadata mismatch: Specified group generation id is not valid.
none | P Transiting to fatal error state due to \
org.apache.kafka.common.errors.UnsupportedVersionException: The broker does not support METADATA
none | P Transiting to abortable error state due to \
org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for orders-0:120000 ms has \
passed since batch creation
none | P Transiting to abortable error state due to java.lang.IllegalStateException: closed
none | P Transiting to abortable error state due to \
org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000088 bytes when \
serialized which is larger than 1048576, which is the value of the max.request.size configuration.
none | C (Re-)joining group
none | C Successfully joined group with generation {G}
none | C Group coordinator b:1 (id: 2147483646 rack: null) is unavailable or invalid due to \
cause: session timed out without receiving a heartbeat response. isDisconnected: false. \
Rediscovery will be attempted.
none | C Member m sending LeaveGroup request to coordinator b:1 (id: 2147483646 rack: null) due \
to consumer poll timeout has expired.
HEARTBEAT 27 | Heartbeat failed for group NSFW because it is rebalancing
HEARTBEAT 25 | Heartbeat: local member_id was not recognized; this consumer needs to re-join
HEARTBEAT 25 | aiokafka.consumer.group_coordinator: WARNING: Heartbeat failed: local member_id \
was not recognized; resetting and re-joining group
OFFSET_COMMIT 25 | kafka.coordinator.consumer - ERROR - OffsetCommit failed for group logreaders \
due to group error (UnknownMemberIdError - 25 - Returned from group requests), will rejoin
OFFSET_COMMIT 27 | kafka.coordinator.consumer - ERROR - OffsetCommit failed for group logreaders \
due to group error ([Error 27] RebalanceInProgressError), will rejoin
none | Heartbeat session expired, marking coordinator dead
JOIN_GROUP 25 | Failed to join group g1: [25] Unknown Member ID: the member id is not in the current
SYNC_GROUP 27 | Failed to sync group g1: [27] Rebalance In Progress: the coordinator has begun
OFFSET_FETCH 16 | Failed to fetch offsets for group g1: [16] Not Coordinator For Group: the broker
FIND_COORDINATOR 15 | Unable to establish connection to consumer group coordinator for group g1: \
[15] Group Coordinator Not Available: the broker returns this error code for group coordinator
METADATA 3 | Problem getting partitions during startup, [3] Unknown Topic Or Partition: the request
PRODUCE 6 | error writing messages to orders (partition 0, attempt 2): [6] Not Leader For Partition
FETCH 3 | the kafka reader got an unknown error reading partition 0 of orders at offset 5: [3] \
Unknown Topic Or Partition
FETCH 1 | the kafka reader is reading before the first offset for partition 0 of orders, skipping
none | Failed to join group g1: EOF
"""
"""The refusal, and the message; C or P is the client in it, {G} a generation."""


@pytest.mark.parametrize("line", LINES.splitlines())
def test_a_refusal_in_words(tmp_path: Path, line: str) -> None:
    refused, said = line.split(" | ", 1)
    by = {"C ": C, "P ": P}.get(said[:2], "")
    client = "reader-a" if by else "unnamed"
    said = by + said.replace("{G}", G)[1 if by else 0 :]
    file = tmp_path / "client.log"
    file.write_text(f"2026-11-20 09:12:05.412  INFO 7 --- [c-1] o.a.k.X : {said}\n")
    if refused == "none":
        with pytest.raises(UserError, match=r"No (exchange was read|request of it is there)"):
            _clients(Where(files=[file]), client)
        return
    (entry,) = _clients(Where(files=[file]), client).story()
    assert [f"{entry.api} {each.code}" for each in entry.refused] == [refused]
    assert entry.time == 1795165925412


LINES_OF_OTHERS = """\
Failed to join group chess: [25] seats are taken
error writing messages to the printer (attempt 2): [6] out of paper
Heartbeat failed for group sensors because it is offline
Heartbeat: local member_id is m-1
Attempt to join group beta was answered with [Error 25] by the web server
OffsetCommit failed for group beta: [Error 28] no space is left
[Tenant clientId=reader-a, plan=free] JoinGroup failed: The account is locked
JoinGroup failed: The account is locked, see Attempt to join group beta
error writing messages to orders (partition 0, attempt 2): dial tcp: i/o timeout
"""


@pytest.mark.parametrize("line", LINES_OF_OTHERS.splitlines())
def test_a_line_of_the_application_in_similar_words_is_no_refusal(line: str) -> None:
    assert client_refusals.refusal_in(f"INFO 7 --- [c-1] app : {line}") is None


def test_refusals_with_other_correlation_ids_are_others(tmp_path: Path) -> None:
    said = "Got error produce response with correlation id {} on topic-partition o-{}, retrying"
    file = tmp_path / "client.log"
    file.write_text(
        "".join(
            f"2026-11-20 09:12:05.412 WARN {C} {said.format(each, each)} (9 attempts left)."
            " Error: NOT_LEADER_OR_FOLLOWER\n"
            for each in (1, 1, 2)
        )
    )
    story = _clients(Where(files=[file]), "reader-a").story()
    assert [[each.code for each in entry.refused] for entry in story] == [[6], [6]]


def test_the_state_that_follows_from_a_refusal_is_no_other_one(tmp_path: Path) -> None:
    failed = "Got error produce response with correlation id 7 on topic-partition o-0. Error:"
    entered = "Transiting to fatal error state due to org.apache.kafka.common.errors"
    file = tmp_path / "client.log"
    file.write_text(
        f"2026-11-20 09:12:05.412 WARN {C} {failed} INVALID_PRODUCER_EPOCH\n"
        f"2026-11-20 09:12:05.415 ERROR {C} {entered}.ProducerFencedException: There is a newer"
        " producer with the same transactionalId which fences the current one.\n"
    )
    story = _clients(Where(files=[file]), "reader-a").story()
    assert [[each.code for each in entry.refused] for entry in story] == [[47]]


def test_a_log_without_refusals_is_not_sent_to_the_same_command(tmp_path: Path) -> None:
    file = tmp_path / "client.log"
    file.write_text(f"2026-11-20 09:12:05.412 WARN {C} Setting newly assigned partitions o-0\n")
    with pytest.raises(UserError) as raised:
        _clients(Where(files=[file]), "reader-a")
    assert raised.value.hint.startswith("Of these lines, `brokertwin explain client` reads")


def test_a_log_without_groups_names_none(tmp_path: Path) -> None:
    file = tmp_path / "client.log"
    failed = f"{C} Offset commit failed on partition o-0 at offset 1: The request timed out."
    file.write_text(f"2026-11-20 09:12:05.412 ERROR {failed}\n")
    with pytest.raises(UserError) as raised:
        _groups(Where(files=[file]), "parcels")
    assert raised.value.hint == (
        "It has no groups at all. Take logs of a time when it was active;"
        " `explain client` reads a client's own log."
    )


@pytest.mark.parametrize("repeated", ["clientId=", "D", "x#"])
def test_lines_of_any_content_are_searched_in_a_short_time(repeated: str) -> None:
    line = repeated * (18_000 // len(repeated))
    begun = time.process_time()
    client_refusals.refusal_in(f"{line}]: Heartbeat: local member_id")
    client_logs._read(f"#consumer-1| {line} with correlation id 1", b"")
    assert time.process_time() - begun < 1
