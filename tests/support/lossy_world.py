"""Members of a group and a producer on a world whose connections are cut and whose members crash.

play = LossyWorld(group_protocol=GroupProtocol.CONSUMER)
play.play([(Step.START, 0), (Step.CUT, 3), (Step.CRASH, 0)])
play.settle()
assert play.violations == []
"""

from collections import Counter
from enum import StrEnum
from typing import Any

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import GroupProtocol
from brokertwin.clients.consumer_events import (
    CommitFailed,
    ConsumerFailed,
    PartitionsLost,
)
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_events import RecordAcked
from tests.support.bench_network import World

GROUP, TOPIC = "billing", "orders"
PARTITIONS = 5
MEMBERS_MAX = 4
SESSION_MS, POLL_INTERVAL_MS, HEARTBEAT_MS = 6_000, 9_000, 1_000
STEP_MS = 200
PAUSES = (1, 200, 1_000, 3_000, 7_000, 10_000)
SETTLED_MS = SESSION_MS + 3 * POLL_INTERVAL_MS


class Step(StrEnum):
    """Possible next events; the number with an event chooses the place or the amount."""

    WAIT = "time passes"
    SEND = "records are sent"
    CUT = "a connection is closed"
    MUTE = "answers stay away for a while, or come again"
    STALL = "an application does not poll, or polls again"
    CRASH = "a member crashes"
    LEAVE = "a member leaves"
    START = "a member comes"


FAULTS = ("cuts", "crashes", "mutes", "stalls", "losses")
Schedule = list[tuple[Step, int]]


class LossyWorld:
    """Events, and violations of the invariants."""

    def __init__(self, **config: Any) -> None:
        self.config = {
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": POLL_INTERVAL_MS,
            "auto_commit_interval_ms": 500,
            **config,
        }
        self.world = World(
            brokers=(1, 2),
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
        )
        self.world.bench.topic(TOPIC, PARTITIONS)
        self.producer = self.world.producer()
        self.members: list[ConsumerClient] = []
        self.everybody: list[ConsumerClient] = []
        self.violations: list[str] = []
        self.injected: Counter[str] = Counter()
        self.acked: set[tuple[TopicPartition, int]] = set()
        self._written: dict[int, int] = {}
        self._rows_seen = 0
        self.start()

    def play(self, schedule: Schedule) -> None:
        for step, number in schedule:
            if step is Step.START:
                self.start()
            elif step is Step.SEND:
                for at in range(number + 1):
                    self.producer.send(self.world.now, TopicPartition(TOPIC, at % PARTITIONS), 10)
            elif step is Step.WAIT:
                self.wait(PAUSES[number % len(PAUSES)])
            elif step is Step.CUT:
                self._cut(number)
            elif self.members:
                self._befall(step, self.members[number % len(self.members)])
            self.turn(20)

    def _befall(self, step: Step, member: ConsumerClient) -> None:
        network = self.world.networks[member]
        if step is Step.MUTE:
            network.is_mute = not network.is_mute
            self.injected["mutes"] += 1
        elif step is Step.STALL:
            self.world.stalled ^= {member}
            self.injected["stalls"] += 1
        elif step is Step.CRASH:
            self.injected["crashes"] += 1
            self._gone(member)
        elif step is Step.LEAVE:
            self.world.stalled.discard(member)
            network.is_mute = False
            member.close(self.world.now)
            for _ in range(3):
                self.world.turn(1)
            self._gone(member)

    def start(self) -> None:
        if len(self.members) < MEMBERS_MAX:
            made = self.world.consumer(GROUP, TOPIC, **self.config)
            self.members.append(made)
            self.everybody.append(made)

    def _gone(self, member: ConsumerClient) -> None:
        self.members.remove(member)
        self.world.stalled.discard(member)
        self.world.remove(member)

    def _cut(self, number: int) -> None:
        clients: list[ClientLoop] = [self.producer, *self.members]
        network = self.world.networks[clients[number % len(clients)]]
        if network.nodes:
            self.injected["cuts"] += 1
            network.cut(network.nodes[number % len(network.nodes)])

    def wait(self, milliseconds: int) -> None:
        until = self.world.now + milliseconds
        while self.world.now < until:
            self.turn(min(STEP_MS, until - self.world.now))

    def turn(self, milliseconds: int) -> None:
        self.world.turn(milliseconds)
        for event in self.producer.events():
            if isinstance(event, RecordAcked):
                self.acked.add((event.topic_partition, event.offset))
        for member in self.members:
            for reported in member.events():
                self.injected["losses"] += isinstance(reported, PartitionsLost)
                self.injected["commits that failed"] += isinstance(reported, CommitFailed)
                if isinstance(reported, ConsumerFailed):
                    self.violations.append(f"a member ended with {reported.error}")
        self._check()

    def _check(self) -> None:
        """Check that no two members of the group own a partition and offsets go forward."""
        here = self._members_of_group()
        self.injected["looks at members"] += bool(here)
        owners: Counter[TopicPartition] = Counter()
        for member in self.members:
            if member.coordinator.generation.member_id in here:
                owners.update(member.subscription.positions.keys())
        self.violations += [f"{at} is owned by {n} at once" for at, n in owners.items() if n > 1]
        bench = self.world.bench
        rows, self._rows_seen = bench.rows[self._rows_seen :], len(bench.rows)
        for record in bench.records_of(rows):
            made = record["record"]
            if made["type"] == "OffsetCommitted":
                if made["offset"] < self._written.get(made["partition"], 0):
                    self.violations.append(f"{made['partition']} goes back to {made['offset']}")
                self._written[made["partition"]] = made["offset"]

    def _members_of_group(self) -> set[str]:
        """As its coordinator says; the other broker is none (16), and at first both are."""
        if self.config.get("group_protocol") is GroupProtocol.CONSUMER:
            api, version, body = "CONSUMER_GROUP_DESCRIBE", 1, {"groupIds": [GROUP]}
        else:
            api, version, body = "DESCRIBE_GROUPS", 5, {"groups": [GROUP]}
        bench = self.world.bench
        responses = [bench.request(api, version, body, broker=b) for b in bench.settings.brokers]
        found = [
            each for response in responses for each in response["groups"] if not each["errorCode"]
        ]
        return {member["memberId"] for group in found for member in group["members"]}

    def settle(self) -> int:
        """Nothing is lost any more: until all is owned and read; how long that took, in ms."""
        for client in self.world.networks:
            self.world.networks[client].is_mute = False
        self.world.stalled.clear()
        if not self.members:
            self.start()
        began = self.world.now
        while not self._is_at_rest():
            self.turn(STEP_MS)
            if self.world.now - began > SETTLED_MS + 2_000:
                owned = [member.subscription.assigned for member in self.members]
                self.violations.append(f"not everything is owned and read: {owned}")
                break
        return self.world.now - began

    def _is_at_rest(self) -> bool:
        owned = [at for member in self.members for at in member.subscription.assigned]
        read = {(at, offset) for each in self.everybody for at, offset, _ in self.world.read[each]}
        is_reported = self.producer.producer.is_idle
        return (
            sorted(owned) == sorted(set(owned))
            and len(owned) == PARTITIONS
            and (is_reported and self.acked <= read)
        )
