"""Consumers of one group, its coordinator, and between them a network that loses and delays.

A member has one connection, on which everything comes in order. When it is cut, some of the
requests on it have reached the coordinator and are handled then. The others never are, and no
response comes.
Members crash, stop polling for a while, and new ones come. A schedule says what happens.

    net = GroupNetwork(config)
    net.play([(Step.START, 0), (Step.WAIT, 3), (Step.CRASH, 0)])
    net.settle()
    assert net.violations == []
"""

from collections import Counter, deque
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import (
    ClassicMembership,
    ClientMemberState,
    CoordinatorRequest,
)
from brokertwin.clients.consumer_events import (
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from brokertwin.clients.consumer_requests import RESPONSES
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import render
from tests.support.machine import Bench

GROUP, TOPIC = "billing", "orders"
PARTITIONS = 5
MEMBERS_MAX = 4
VERSIONS = {
    "FIND_COORDINATOR": 6,
    "JOIN_GROUP": 9,
    "SYNC_GROUP": 5,
    "HEARTBEAT": 4,
    "LEAVE_GROUP": 5,
    "OFFSET_COMMIT": 9,
    "OFFSET_FETCH": 9,
}
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 6_000, 9_000, 2_000
PAUSES = (1, 30, 200, 1_000, 3_000, 7_000, 10_000)
"""Duration of a waiting step in ms: about backoffs, heartbeats, sessions and rebalances."""

SETTLED_MS = SESSION_MS + 3 * REBALANCE_MS
"""By then every partition is owned again: a session, a rebalance, and one for cooperative."""


class Step(StrEnum):
    """Possible next events; the number with an event chooses the place or the amount."""

    WAIT = "time passes"
    POLL = "an application polls and reads on"
    FLOW = "for a second everything arrives, and applications poll"
    REQUEST = "a request arrives"
    RESPONSE = "an answer arrives"
    CUT = "a connection is closed"
    CRASH = "a member crashes"
    LEAVE = "a member leaves"
    START = "a member comes"


Schedule = list[tuple[Step, int]]

FAULTS = ("crashes", "lost requests", "lost answers", "handled after a cut", "missed polls")


class Response(NamedTuple):
    sent: CoordinatorRequest
    body: dict[str, Any]


class Member:
    def __init__(self, name: str, config: ConsumerConfig) -> None:
        self.name = name
        self.subscription = SubscriptionState([TOPIC])
        self.coordinator = ClassicMembership(config, self.subscription)
        self.requests: deque[CoordinatorRequest] = deque()
        self.waiting: dict[str, CoordinatorRequest] = {}
        self.responses: deque[Response] = deque()
        self.polled = 0

    @property
    def is_member(self) -> bool:
        return self.coordinator.state is ClientMemberState.STABLE


class GroupNetwork:
    """One broker, one topic, and the members of a group that read it."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.bench = Bench(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=1_000)
        self.bench.topic(TOPIC, PARTITIONS)
        self.config = config
        self.members: list[Member] = []
        self.violations: list[str] = []
        self.injected: Counter[str] = Counter()
        self.stored: dict[TopicPartition, int] = {}
        self.written: dict[TopicPartition, int] = {}
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        self.events: list[tuple[str, str]] = []
        self._started = 0
        self._rows_seen = 0

    @property
    def now(self) -> int:
        return self.bench.now

    def play(self, schedule: Schedule) -> None:
        """Lets everything happen that the schedule says."""
        steps = {
            Step.WAIT: lambda number: self.wait(PAUSES[number % len(PAUSES)]),
            Step.POLL: lambda number: self._with(number, self.poll),
            Step.FLOW: self.flow,
            Step.REQUEST: lambda number: self._with(number, self._request),
            Step.RESPONSE: lambda number: self._with(number, self._respond),
            Step.CUT: lambda number: self._with(number, lambda m: self.cut(m, number)),
            Step.CRASH: lambda number: self._with(number, self.crash),
            Step.LEAVE: lambda number: self._with(number, self.leave),
            Step.START: lambda _: self.start(),
        }
        for step, number in schedule:
            steps[step](number)
            self.tick()

    def _with(self, number: int, do: Any) -> None:
        if self.members:
            do(self.members[number % len(self.members)])

    # Events

    def start(self) -> Member | None:
        if len(self.members) >= MEMBERS_MAX:
            return None
        self._started += 1
        self.members.append(Member(f"m{self._started}", self.config))
        self.poll(self.members[-1])
        return self.members[-1]

    def crash(self, member: Member) -> None:
        self.injected["crashes"] += 1
        self._drop(member, 0)
        self.members.remove(member)

    def leave(self, member: Member) -> None:
        member.coordinator.close(self.now)
        self._send(member)
        while member.requests:
            self._request(member)
        self._events(member)
        self.members.remove(member)

    def wait(self, milliseconds: int) -> None:
        self.bench.tick(milliseconds)
        self._collect()

    def poll(self, member: Member) -> None:
        """The application polls, takes the records, and reads on in each partition."""
        if member.polled and self.now - member.polled >= REBALANCE_MS:
            self.injected["missed polls"] += 1
        member.polled = self.now
        member.coordinator.poll(self.now, {TOPIC: PARTITIONS})
        self._events(member)
        subscription = member.subscription
        for partition in list(subscription.without_offset):
            subscription.seek(partition, 0)
        if not subscription.is_pending_revocation:
            for partition, offset in subscription.all_consumed().items():
                subscription.seek(partition, offset + 1)
        self._send(member)
        self._check()

    def tick(self) -> None:
        for member in self.members:
            member.coordinator.tick(self.now)
            self._events(member)
            self._send(member)

    def flow(self, number: int = 0) -> None:
        """Who polls first is chosen by the number."""
        first = number % max(len(self.members), 1)
        in_turn = self.members[first:] + self.members[:first]
        for member in in_turn:
            while member.requests or member.responses:
                self._request(member)
                self._respond(member)
                self._send(member)
        for member in in_turn:
            self.poll(member)
        self.tick()
        self.wait(1_000)

    def cut(self, member: Member, number: int) -> None:
        """Some requests are handled all the same; nothing is answered."""
        lost = [sent.id for sent in (*member.waiting.values(), *member.requests)]
        lost += [response.sent.id for response in member.responses]
        self._drop(member, number % 3)
        for request_id in lost:
            member.coordinator.failed(self.now, request_id)
        member.coordinator.disconnected(self.now)

    def _drop(self, member: Member, handled: int) -> None:
        for _ in range(min(handled, len(member.requests))):
            self.injected["handled after a cut"] += 1
            self._request(member)
        self.injected["lost requests"] += len(member.requests)
        self.injected["lost answers"] += len(member.responses) + len(member.waiting)
        member.requests.clear()
        member.waiting.clear()
        member.responses.clear()

    # The wire

    def _send(self, member: Member) -> None:
        member.requests.extend(member.coordinator.take())

    def _request(self, member: Member) -> None:
        if member.requests:
            sent = member.requests.popleft()
            version = VERSIONS[sent.api]
            event_id = self.bench.send(
                sent.api, version, render(sent.body, version), connection=member.name
            )
            assert not self.bench.dead_letters(self.bench.last), self.bench.dead_letters()
            member.waiting[event_id] = sent
            self._collect()

    def _collect(self) -> None:
        """Responses that the coordinator has given by now go on the wire."""
        for member in self.members:
            for event_id in [each for each in member.waiting if each in self.bench.responses]:
                body = self.bench.responses[event_id]["response"]
                member.responses.append(Response(member.waiting.pop(event_id), body))

    def _respond(self, member: Member) -> None:
        if member.responses:
            sent, body = member.responses.popleft()
            response = msgspec.convert(body, RESPONSES[sent.api])
            member.coordinator.on_response(self.now, sent.id, response)
            self._events(member)

    def _events(self, member: Member) -> None:
        """Callbacks of the application; a partition has one owner in a generation."""
        events, member.coordinator.events = member.coordinator.events, []
        generation = member.coordinator.generation.id
        for event in events:
            self.events.append((member.name, type(event).__name__))
            if isinstance(event, PartitionsAssigned):
                for partition in member.subscription.assigned:
                    owner = self.owners.setdefault((generation, partition), member.name)
                    if owner != member.name:
                        self.violations.append(f"{partition} twice in generation {generation}")
            elif isinstance(event, OffsetsCommitted):
                for partition, offset in event.offsets.items():
                    self.stored[partition] = max(self.stored.get(partition, 0), offset)
            elif not isinstance(event, PartitionsRevoked | PartitionsLost):
                self.injected[type(event).__name__] += 1

    # Invariants

    def _check(self) -> None:
        """Check that partitions have one owner each and that offsets go forward."""
        here = self.members_of_group()
        owners: Counter[TopicPartition] = Counter()
        for member in self.members:
            if member.coordinator.generation.member_id in here:
                owners.update(member.subscription.positions.keys())
        for partition, count in owners.items():
            if count > 1:
                self.violations.append(f"{partition} is owned by {count} at once")
        rows, self._rows_seen = self.bench.rows[self._rows_seen :], len(self.bench.rows)
        for record in self.bench.records_of(rows):
            if record["record"]["type"] == "OffsetCommitted":
                self._written(TopicPartition(TOPIC, record["record"]["partition"]), record)

    def _written(self, partition: TopicPartition, record: dict[str, Any]) -> None:
        offset = record["record"]["offset"]
        if offset < self.written.get(partition, 0):
            self.violations.append(f"{partition} goes back to {offset}")
        self.written[partition] = offset

    def members_of_group(self) -> set[str]:
        described = self.bench.request("DESCRIBE_GROUPS", 5, groups=[GROUP])["groups"][0]
        return {member["memberId"] for member in described["members"]}

    def committed(self) -> dict[TopicPartition, int]:
        """Offsets stored by the coordinator."""
        topic = {"name": TOPIC, "partitionIndexes": list(range(PARTITIONS))}
        response = self.bench.request("OFFSET_FETCH", 9, groupId=GROUP, topics=[topic])["groups"][0]
        return {
            TopicPartition(TOPIC, each["partitionIndex"]): each["committedOffset"]
            for topic in response["topics"]
            for each in topic["partitions"]
        }

    def settle(self) -> int:
        """Nothing is lost any more: until every partition is owned; how long that took, in ms."""
        if not self.members:
            self.start()
        began, rested, turn = self.now, 0, 0
        while rested < 4:
            turn += 1
            self.flow(turn)
            owned = [p for member in self.members for p in member.subscription.assigned]
            is_at_rest = len(owned) == PARTITIONS and all(m.is_member for m in self.members)
            rested = rested + 1 if is_at_rest else 0
            if self.now - began > SETTLED_MS + 2_000:
                states = [
                    (m.name, m.coordinator.state, m.subscription.assigned) for m in self.members
                ]
                self.violations.append(f"not everything is owned again: {states}")
                break
        stored = self.committed()
        for partition, offset in self.stored.items():
            if stored.get(partition, -1) < offset:
                self.violations.append(f"{partition}: {offset} was stored and is lost")
        return self.now - began
