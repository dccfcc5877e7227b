"""Deleted internal topics: compare the remaining groups and ids with Kafka.

Both brokers get the same requests before the deletion, while the topic is missing, and after it is
created again. DeleteTopics accepts all three topics.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.protocol.frames import decode_response
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from tests.support.batches import batch
from tests.support.deleted_topics import NOT_COORDINATOR, Requests, assert_same, errors
from tests.support.gateways import Client
from tests.support.goldens import WRITTEN_MS, real_broker
from tests.support.group_walks import TOO_LONG
from tests.support.patience import wait_until
from tests.support.settled import GROUP_RESOURCE
from tests.support.streams_groups import NO_TASKS, part, topology
from tests.support.walk_sides import Body, Side, Sides, Step, both_sides

pytestmark = pytest.mark.compares

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "brokertwin.internal.logs": "true",
}
"""Settings with which ours keeps producers in `__consumer_offsets`, too."""

TOPIC, LATER = "deleted-internal", "deleted-internal-later"
JOIN_GROUP, SYNC_GROUP = 11, 14
UNKNOWN_SERVER_ERROR = -1
PROTOCOL = {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
TIMEOUTS = {"sessionTimeoutMs": 45_000, "rebalanceTimeoutMs": 45_000}


BothSides = Callable[[str], AbstractContextManager[Sides]]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[BothSides]:
    """Compare ours with a fresh real broker, by the name of a golden."""
    settings = {name: each for name, each in SETTINGS.items() if "brokertwin" not in name}
    with real_broker(tmp_path / "broker", settings) as address:
        yield partial(both_sides, address, topics={TOPIC: 1, LATER: 1}, settings=SETTINGS)


# Groups and offsets

REFUSED, OFFSETS, CLASSIC, SYNCED, MODERN, SHARED, STREAMED, PENDING = GROUPS = [
    *("refused", "offsets", "classic", "synced", "modern", "shared", "streamed", "pending"),
]
WRITER = "deleted-writer"


def commit_body(group: str, metadata: str = "", **of: Any) -> Body:
    places = [{"partitionIndex": 0, "committedOffset": 5, "committedMetadata": metadata}]
    of_member = {"generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None}
    return {"groupId": group, **of_member, **of, "topics": [{"name": TOPIC, "partitions": places}]}


class Groups(Requests):
    """Groups of each kind, with members, offsets, and pending requests."""

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        self.groups = GROUPS
        self.epochs: dict[str, int] = {}
        self._connections: list[Client] = []
        self._waiting: list[tuple[str, int, Client]] = []

    def _connection(self) -> Client:
        self._connections.append(self.side.connection())
        return self._connections[-1]

    def begin(self) -> None:
        self.side.begin(GROUPS, {})
        self.side.begin_transactions(WRITER)
        self._begin_transaction()
        self.call("", "OFFSET_COMMIT", 8, commit_body(OFFSETS, "a"))
        self.call("", "OFFSET_COMMIT", 8, commit_body(REFUSED, TOO_LONG))
        self._begin_classic()
        self.beat(MODERN, 0)
        self.beat(SHARED, 0)
        self.beat(STREAMED, 0)

    def _begin_transaction(self) -> None:
        body = {"transactionalId": WRITER, "transactionTimeoutMs": 60_000}
        found: list[Body] = []

        def is_there() -> bool:
            found.append(self.quietly("INIT_PRODUCER_ID", 4, body))
            return not errors(found[-1])

        wait_until(is_there)
        of = {name: found[-1][name] for name in ("producerId", "producerEpoch")}
        self.producer = {"transactionalId": WRITER, **of}
        self.call("", "ADD_OFFSETS_TO_TXN", 3, {**self.producer, "groupId": PENDING})
        self.commit_in_transaction("", 3)

    def commit_in_transaction(self, when: str, version: int) -> None:
        body = commit_body(PENDING) | {"generationId": -1} | self.producer
        self.call(when, "TXN_OFFSET_COMMIT", version, body)

    def end_transaction(self) -> None:
        self.call("", "END_TXN", 3, {**self.producer, "committed": True})
        body = {"transactionalIds": [WRITER]}

        def is_complete() -> bool:
            (transaction_state,) = self.quietly("DESCRIBE_TRANSACTIONS", 0, body)[
                "transactionStates"
            ]
            return transaction_state["transactionState"] == "CompleteCommit"

        wait_until(is_complete)

    def _begin_classic(self) -> None:
        """Start a generation, with a pending join; another group has a pending sync."""
        first, second, third, fourth = (self._connection() for _ in range(4))
        self.member = first.call("JOIN_GROUP", 3, self._join(CLASSIC))["memberId"]
        self.masks[self.member] = "the member"
        self._sync(first, CLASSIC, 1, self.member, is_leader=True)
        second.send("JOIN_GROUP", 3, self._join(CLASSIC))
        self._waiting.append(("the join", JOIN_GROUP, second))
        leader = third.call("JOIN_GROUP", 3, self._join(SYNCED))["memberId"]
        fourth.send("JOIN_GROUP", 3, self._join(SYNCED))
        self._wait_for_state(SYNCED, "PreparingRebalance")
        third.call("JOIN_GROUP", 3, self._join(SYNCED, leader))
        follower = decode_response(JOIN_GROUP, 3, fourth.receive())[1]["memberId"]
        self._sync(fourth, SYNCED, 2, follower, is_leader=False)
        self._waiting.append(("the sync", SYNC_GROUP, fourth))
        self._wait_for_state(CLASSIC, "PreparingRebalance")

    def _wait_for_state(self, group: str, state: str) -> None:
        body = {"groups": [group], "includeAuthorizedOperations": False}

        def is_so() -> bool:
            (group,) = self.quietly("DESCRIBE_GROUPS", 5, body)["groups"]
            return bool(group["groupState"] == state)

        wait_until(is_so)

    def _join(self, group: str, member: str = "") -> Body:
        return {"groupId": group, **TIMEOUTS, "memberId": member, **PROTOCOL}

    def _sync(self, client: Client, group: str, epoch: int, member: str, is_leader: bool) -> None:
        body: Body = {"groupId": group, "generationId": epoch, "memberId": member}
        assigned = [{"memberId": member, "assignment": b""}] if is_leader else []
        body["assignments"] = assigned
        if is_leader:
            assert not errors(client.call("SYNC_GROUP", 3, body))
        else:
            client.send("SYNC_GROUP", 3, body)

    def those_who_wait(self) -> None:
        for what, api, client in self._waiting:
            response = decode_response(api, 3, client.receive())[1]
            assert bool(response.pop("memberId", "its id")), "a join that waited names its member"
            self.note(what, response)

    def beat(self, group: str, epoch: int | None = None) -> None:
        """Send a member's heartbeat in its epoch, or a joining one."""
        epoch = self.epochs[group] if epoch is None else epoch
        body: Body = {"groupId": group, "memberId": "member", "memberEpoch": epoch}
        if group == MODERN:
            name = "CONSUMER_GROUP_HEARTBEAT"
            body |= {"rebalanceTimeoutMs": 60_000, "topicPartitions": []} if not epoch else {}
            body |= {"subscribedTopicNames": [TOPIC]} if not epoch else {}
            version = 1
        elif group == SHARED:
            name, version = "SHARE_GROUP_HEARTBEAT", 1
            body |= {"subscribedTopicNames": [TOPIC]} if not epoch else {}
        else:
            name, version = "STREAMS_GROUP_HEARTBEAT", 0
            joining = {"rebalanceTimeoutMs": 60_000, "topology": topology(part("0", TOPIC))}
            body |= {**joining, **NO_TASKS, "processId": "p"} if not epoch else {}
        response = self.call(f"epoch {epoch}", name, version, body)
        self.epochs[group] = response["memberEpoch"] if not errors(response) else epoch

    def look(self, when: str) -> None:
        """Send all requests that describe groups."""
        member = {"groupId": CLASSIC, "generationId": 1, "memberId": self.member}
        all_groups = [{"groupId": each, "memberId": None, "topics": None} for each in GROUPS]
        place = {"name": TOPIC, "partitions": [{"partitionIndex": 0}]}
        share = {"groupId": SHARED, "topics": None}
        offset = {"partitionIndex": 0, "startOffset": 0}
        altered = [{"topicName": TOPIC, "partitions": [offset]}]
        steps: list[tuple[str, int, Body]] = [
            ("DESCRIBE_GROUPS", 5, {"groups": GROUPS, "includeAuthorizedOperations": False}),
            ("DESCRIBE_GROUPS", 6, {"groups": GROUPS, "includeAuthorizedOperations": False}),
            ("LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []}),
            ("CONSUMER_GROUP_DESCRIBE", 1, {"groupIds": [MODERN, OFFSETS]}),
            ("SHARE_GROUP_DESCRIBE", 1, {"groupIds": [SHARED]}),
            ("STREAMS_GROUP_DESCRIBE", 0, {"groupIds": [STREAMED]}),
            ("OFFSET_FETCH", 8, {"groups": all_groups, "requireStable": True}),
            ("HEARTBEAT", 4, member),
            ("LEAVE_GROUP", 5, {"groupId": CLASSIC, "members": [{"memberId": self.member}]}),
            ("SYNC_GROUP", 3, {**member, "assignments": []}),
            ("JOIN_GROUP", 3, self._join(CLASSIC, self.member)),
            ("JOIN_GROUP", 9, self._join(CLASSIC, self.member)),
            ("OFFSET_COMMIT", 8, commit_body(CLASSIC, **_member_of(self.member, 1))),
            ("OFFSET_COMMIT", 8, commit_body(MODERN, **_member_of("member", 2))),
            ("OFFSET_DELETE", 0, {"groupId": OFFSETS, "topics": [place]}),
            ("DESCRIBE_SHARE_GROUP_OFFSETS", 0, {"groups": [share]}),
            (
                "DELETE_SHARE_GROUP_OFFSETS",
                0,
                {"groupId": SHARED, "topics": [{"topicName": TOPIC}]},
            ),
            ("DELETE_GROUPS", 2, {"groupsNames": GROUPS}),
        ]
        if when == "gone":
            steps.append(("ALTER_SHARE_GROUP_OFFSETS", 0, {"groupId": SHARED, "topics": altered}))
        for api, version, body in steps:
            self.call(when, api, version, body)
        for group in (MODERN, SHARED, STREAMED):
            self.beat(group)


def _member_of(member: str, epoch: int) -> Body:
    return {"generationIdOrMemberEpoch": epoch, "memberId": member}


def go_on_without_groups(side: Side) -> Groups:
    requesting = Groups(side)
    requesting.begin()
    described = {"groups": [OFFSETS], "includeAuthorizedOperations": False}

    def send() -> Body:
        return requesting.quietly("DESCRIBE_GROUPS", 5, described)

    requesting.delete(GROUP_TOPIC, send)
    requesting.those_who_wait()
    requesting.look("gone")
    for version in (3, 5):
        requesting.commit_in_transaction("gone", version)
    requesting.again(GROUP_TOPIC, OFFSETS, 0, send)
    side.begin(GROUPS, {})
    requesting.look("again")
    requesting.commit_in_transaction("again", 3)
    requesting.end_transaction()
    requesting.call("again", "OFFSET_COMMIT", 8, commit_body(OFFSETS, "b"))
    for group in (MODERN, STREAMED):
        requesting.beat(group, 0)
    requesting.call("again", "LIST_GROUPS", 5, {"statesFilter": [], "typesFilter": []})
    offsets = [{"groupId": each, "topics": None} for each in GROUPS]
    requesting.call("again", "OFFSET_FETCH", 8, {"groups": offsets, "requireStable": True})
    return requesting


def test_deleting_the_topic_of_groups_deletes_all_groups(both: BothSides) -> None:
    with both("deleted_topics/groups") as sides:
        results = [go_on_without_groups(side).reported for side in sides]
    assert_same(results)
    waited = [response for what, response in results[1] if what in ("the join", "the sync")]
    assert [errors(each) for each in waited] == [{NOT_COORDINATOR}] * 2


# Transactional ids


def transactional(producer_id: int, epoch: int, sequence: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer_id, epoch, sequence, 1 << 20)
    builder.append(0, WRITTEN_MS, None, b"v", [])
    return bytes(builder.build())


class Transactions(Requests):
    """Two transactional ids, one of them with an open transaction."""

    OPEN, IDLE = "deleted-open", "deleted-idle"

    def begin(self) -> None:
        self.find("group", 0)
        for name in (self.OPEN, self.IDLE):
            self.side.begin_transactions(name)
        self.holders = {name: self._init(name) for name in (self.OPEN, self.IDLE)}
        self._first_id = self.holders[self.OPEN]["producerId"]
        self.add("", self.holders[self.OPEN])
        self.produce("", self.OPEN, 0)
        offsets = {**self.holders[self.OPEN], "groupId": "group"}
        self.call("", "ADD_OFFSETS_TO_TXN", 3, offsets)
        self.commit("")
        self.ends("open")

    def note(self, what: str, response: Any) -> None:
        super().note(what, self._relative(response))

    def _relative(self, value: Any) -> Any:
        """Return producer ids relative to the first one."""
        if isinstance(value, dict):
            return {
                name: each - self._first_id
                if name == "producerId" and each >= 0 and hasattr(self, "_first_id")
                else self._relative(each)
                for name, each in value.items()
            }
        return [self._relative(each) for each in value] if isinstance(value, list) else value

    def _init(self, name: str) -> Body:
        body = {"transactionalId": name, "transactionTimeoutMs": 60_000}
        found: list[Body] = []

        def is_there() -> bool:
            found.append(self.quietly("INIT_PRODUCER_ID", 4, body))
            return not errors(found[-1])

        wait_until(is_there)
        of = {each: found[-1][each] for each in ("producerId", "producerEpoch")}
        return {"transactionalId": name, **of}

    def init(self, when: str, **of: Any) -> Body:
        body = {"transactionalId": self.OPEN, "transactionTimeoutMs": 60_000}
        return self.call(when, "INIT_PRODUCER_ID", 4, {**body, **of})

    def add(self, when: str, holder: Body) -> None:
        named = {f"v3AndBelow{k[0].upper()}{k[1:]}": v for k, v in holder.items()}
        named["v3AndBelowTopics"] = [{"name": TOPIC, "partitions": [0]}]
        self.call(when, "ADD_PARTITIONS_TO_TXN", 3, named)

    def produce(self, when: str, name: str, sequence: int, version: int = 11) -> None:
        holder = self.holders[name]
        records = transactional(holder["producerId"], holder["producerEpoch"], sequence)
        data = [{"name": TOPIC, "partitionData": [{"index": 0, "records": records}]}]
        body = {"transactionalId": name, "acks": -1, "timeoutMs": 30_000, "topicData": data}
        response = self.side.call("PRODUCE", version, body)
        response.pop("throttleTimeMs")
        self.note(f"{when}: produce for {name}", response)

    def commit(self, when: str) -> None:
        body = commit_body("group") | {"generationId": -1} | self.holders[self.OPEN]
        self.call(when, "TXN_OFFSET_COMMIT", 3, body)

    def ends(self, when: str) -> None:
        for isolation in (0, 1):
            partition = {"partitionIndex": 0, "timestamp": -1}
            topics = [{"name": TOPIC, "partitions": [partition]}]
            body = {"replicaId": -1, "isolationLevel": isolation, "topics": topics}
            self.call(f"{when}, isolation {isolation}", "LIST_OFFSETS", 7, body)

    def look(self, when: str) -> None:
        """Send all requests about the id with the open transaction, except InitProducerId."""
        holder = self.holders[self.OPEN]
        topics = [{"name": TOPIC, "partitions": [0]}]
        listed = {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1}
        self.call(when, "DESCRIBE_TRANSACTIONS", 0, {"transactionalIds": [self.OPEN]})
        self.call(when, "LIST_TRANSACTIONS", 1, listed)
        self.add(when, holder)
        for is_verified in (False, True):
            body = [{**holder, "verifyOnly": is_verified, "topics": topics}]
            self.call(when, "ADD_PARTITIONS_TO_TXN", 4, {"transactions": body})
        self.call(when, "ADD_OFFSETS_TO_TXN", 3, {**holder, "groupId": "group"})
        for version in (3, 5):
            self.call(when, "END_TXN", version, {**holder, "committed": True})
        self.init(when, **holder)

    def go_on(self, when: str, sequence: int) -> None:
        """Return what leaders accept of producers that their coordinator has forgotten."""
        self.produce(when, self.OPEN, sequence)
        for version in (11, 12):
            self.produce(when, self.IDLE, 0, version)
        self.commit(when)
        self.call(when, "DESCRIBE_PRODUCERS", 0, {"topics": [PRODUCERS_OF]})
        self.ends(when)


PRODUCERS_OF = {"name": TOPIC, "partitionIndexes": [0]}


def go_on_without_transactions(side: Side) -> Transactions:
    requesting = Transactions(side)
    requesting.begin()
    described = {"transactionalIds": [Transactions.OPEN]}

    def send() -> Body:
        return requesting.quietly("DESCRIBE_TRANSACTIONS", 0, described)

    requesting.delete(TRANSACTION_TOPIC, send)
    requesting.look("gone")
    requesting.init("gone")
    requesting.call(
        "gone", "INIT_PRODUCER_ID", 4, {"transactionalId": None, "transactionTimeoutMs": 1}
    )
    requesting.go_on("gone", 1)
    requesting.again(TRANSACTION_TOPIC, Transactions.OPEN, 1, send)
    requesting.look("again")
    requesting.go_on("again", 2)
    former = requesting.holders[Transactions.OPEN]
    new = requesting.init("again")
    requesting.holders[Transactions.OPEN] = {**former, **_holder(new)}
    requesting.add("new", requesting.holders[Transactions.OPEN])
    requesting.produce("new", Transactions.OPEN, 0)
    requesting.call(
        "new", "END_TXN", 3, {**requesting.holders[Transactions.OPEN], "committed": True}
    )
    wait_until(lambda: send()["transactionStates"][0]["transactionState"] == "CompleteCommit")
    requesting.call("new", "DESCRIBE_TRANSACTIONS", 0, described)
    requesting.call("new", "DESCRIBE_PRODUCERS", 0, {"topics": [PRODUCERS_OF]})
    requesting.ends("one hangs")
    marker = {**_holder(former), "transactionResult": False, "coordinatorEpoch": 0}
    marker["topics"] = [PRODUCERS_OF]
    requesting.call("an admin ends it", "WRITE_TXN_MARKERS", 1, {"markers": [marker]})
    requesting.ends("none hangs")
    return requesting


def test_deleting_the_topic_of_transactions_leaves_open_transactions_unfinished(
    both: BothSides,
) -> None:
    with both("deleted_topics/transactions") as sides:
        results = [go_on_without_transactions(side).reported for side in sides]
    assert_same(results)
    stable = [
        response["topics"][0]["partitions"][0]["offset"]
        for what, response in results[1]
        if "on 1" in what
    ]
    assert stable[:-1] == [0] * len(stable[:-1])
    assert stable[-1] > 0


def _holder(response: Body) -> Body:
    return {name: response[name] for name in ("producerId", "producerEpoch")}


# Share states


class Shares(Requests):
    """A share group whose member has records."""

    MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"

    def __init__(self, side: Side, group: str, topic: str) -> None:
        super().__init__(side)
        self.group, self.topic, self.epoch = group, topic, 0
        self.client = side.connection()

    def begin(self) -> None:
        self.side.begin([self.group], {})
        settings = {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "0"}
        configs = [{"name": k, "configOperation": 0, "value": v} for k, v in settings.items()]
        resource = {"resourceType": GROUP_RESOURCE, "resourceName": self.group, "configs": configs}
        self.quietly("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
        self.side.settle()
        self.side.write(self.topic, 0, batch(*[b"v"] * 6, timestamps=[WRITTEN_MS] * 6))
        wait_until(self._is_assigned)
        wait_until(lambda: self._records(self.fetch(0)))
        self.acknowledge("", 1, 0)
        self.look("before")

    def _is_assigned(self) -> bool:
        response = self.beat()
        self.epoch = response["memberEpoch"] if not errors(response) else self.epoch
        return bool((response["assignment"] or {}).get("topicPartitions"))

    def beat(self) -> Body:
        body: Body = {"groupId": self.group, "memberId": self.MEMBER, "memberEpoch": self.epoch}
        body |= {} if self.epoch else {"subscribedTopicNames": [self.topic]}
        return self.quietly("SHARE_GROUP_HEARTBEAT", 1, body)

    def _topics(self, **of: Any) -> list[Body]:
        return [{"topicId": self.side.ids[self.topic], "partitions": [of]}]

    def fetch(self, session_epoch: int) -> Body:
        of = {"partitionIndex": 0, "partitionMaxBytes": 1 << 20, "acknowledgementBatches": []}
        limits = {"maxWaitMs": 200, "minBytes": 1, "maxBytes": 1 << 20}
        limits |= {"maxRecords": 10, "batchSize": 10}
        body = {"groupId": self.group, "memberId": self.MEMBER}
        body |= {"shareSessionEpoch": session_epoch, **limits, "topics": self._topics(**of)}
        return self._shown("SHARE_FETCH", 1, body)

    def first_of_all_sessions(self) -> Body:
        """Fetch with no session open: leaders read the state again, which is gone.

        A broker notices a closed connection late, and keeps the state if a new session opens
        before.
        """
        found: list[Body] = []

        def has_failed() -> bool:
            self.client.close()
            time.sleep(0.3)
            self.client = self.side.connection()
            found.append(self.fetch(0))
            return UNKNOWN_SERVER_ERROR in errors(found[-1])

        wait_until(has_failed)
        return found[-1]

    def _shown(self, api: str, version: int, body: Body) -> Body:
        """Return the response to a fetch on a connection with a session."""
        return self.side.shown(Step(api, version, body), self.client.call(api, version, body), [])

    def _records(self, response: Body) -> bool:
        return any(
            each["acquiredRecords"] for t in response["responses"] for each in t["partitions"]
        )

    def acknowledge(self, when: str, session_epoch: int, offset: int) -> None:
        batches = [{"firstOffset": offset, "lastOffset": offset, "acknowledgeTypes": [1]}]
        body = {"groupId": self.group, "memberId": self.MEMBER}
        body |= {"shareSessionEpoch": session_epoch}
        body["topics"] = self._topics(partitionIndex=0, acknowledgementBatches=batches)
        self.note(f"{when}: acknowledged {offset}", self._shown("SHARE_ACKNOWLEDGE", 1, body))

    def state(self) -> Body:
        body = {"groupId": self.group, "topics": self._topics(partition=0, leaderEpoch=0)}
        return self.quietly("READ_SHARE_GROUP_STATE", 0, body)

    def look(self, when: str) -> None:
        """Send all requests to a share coordinator."""
        begun = {"stateEpoch": 1, "leaderEpoch": 0, "startOffset": 3, "stateBatches": []}
        steps = [
            ("READ_SHARE_GROUP_STATE", {"leaderEpoch": 0}),
            ("READ_SHARE_GROUP_STATE_SUMMARY", {"leaderEpoch": 0}),
            ("WRITE_SHARE_GROUP_STATE", begun),
            ("DELETE_SHARE_GROUP_STATE", {}),
        ]
        if when == "gone":
            steps.append(("INITIALIZE_SHARE_GROUP_STATE", {"stateEpoch": 1, "startOffset": -1}))
        for api, of in steps[: 2 if when == "before" else None]:
            body = {"groupId": self.group, "topics": self._topics(partition=0, **of)}
            self.call(when, api, 0, body)

    def offsets(self, when: str) -> None:
        body = {"groups": [{"groupId": self.group, "topics": None}]}
        self.call(when, "DESCRIBE_SHARE_GROUP_OFFSETS", 0, body)


def go_on_without_share_states(side: Side, group: str, topic: str) -> Shares:
    requesting = Shares(side, group, topic)
    requesting.begin()
    requesting.delete(SHARE_TOPIC, requesting.state)
    if group == "shares":
        requesting.look("gone")
        requesting.find(f"{group}:{side.ids[topic]}:0", 2)
    else:
        requesting.note("gone", requesting.beat())
        requesting.acknowledge("gone", 2, 1)
    wait_until(lambda: NOT_COORDINATOR not in errors(requesting.state()))
    side.settle()
    requesting.topic_of(SHARE_TOPIC)
    requesting.look("again")
    requesting.note("again", requesting.beat())
    if group == "shares":
        requesting.acknowledge("again", 2, 1)
    requesting.acknowledge("again", 3, 2)
    requesting.note("again", requesting.fetch(4))
    requesting.offsets("again")
    requesting.note("a new session", requesting.first_of_all_sessions())
    leaving = {"groupId": group, "memberId": Shares.MEMBER, "memberEpoch": -1}
    requesting.call("", "SHARE_GROUP_HEARTBEAT", 1, leaving)
    offset = [{"partitionIndex": 0, "startOffset": 3}]
    altered = {"groupId": group, "topics": [{"topicName": topic, "partitions": offset}]}
    requesting.call("", "ALTER_SHARE_GROUP_OFFSETS", 0, altered)
    requesting.offsets("altered")
    requesting.note("altered", requesting.state())
    requesting.call("", "DELETE_GROUPS", 2, {"groupsNames": [group]})
    return requesting


@pytest.mark.parametrize(("group", "topic"), [("shares", TOPIC), ("sharing", LATER)])
def test_deleting_the_topic_of_share_states_deletes_states_but_no_group(
    both: BothSides, group: str, topic: str
) -> None:
    """The topic is created again by FindCoordinator, or by a leader that writes.

    `shares` is the first case, `sharing` the second.
    """
    with both(f"deleted_topics/{group}") as sides:
        results = [go_on_without_share_states(side, group, topic).reported for side in sides]
    assert_same(results)
