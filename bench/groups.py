"""Many groups that commit, and large groups that rebalance.

    python bench/groups.py [--groups 50000] [--partitions 20] [--members 1000]

One cell in this process, as in the gateway's local engine. Processor time includes making the
requests and reading the responses. A cell encodes changed items every 500 events.

    commit    each group commits all its partitions in one request, for the first time
    again     each group commits once more
    load      load a cell from the stored columns, as after a restart, and handle one commit
    classic   members join, the leader assigns, all sync; then one leaves and the rest rebalance
    consumer  members of KIP-848 join and send heartbeats until stable; then one leaves

A run is valid only if no response has an error, fetches return every offset, and each partition
ends with one owner; otherwise nothing is printed.
"""

import argparse
import base64
import re
import sys
import time
from typing import Any, NamedTuple

import msgspec
from growth import EMPTY_SUBSCRIPTION, START, GrowthBed, GrowthMismatch

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import DEAD_LETTERS, RESPONSES, Output, Position
from brokertwin.state.groups.consumer_protocol import assignment_bytes

TOPIC = "many"
BEAT_MS = 5_000
ROUNDS_MAX = 100
_ERROR = re.compile(rb'"errorCode":(-?[1-9][0-9]*)')


class GroupTimes(NamedTuple):
    """Number of events, their seconds, and the state size after them in bytes."""

    events: int
    seconds: float
    state_bytes: int


class GroupBed(GrowthBed):
    """`GrowthBed` with an advancing clock and a topic of many partitions."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.now = START
        self.topic_id = self.topic(TOPIC, 3, partitions)
        self.partitions = partitions
        self.events = 0

    def send(self, key: int, version: int, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Handle a request and return all responses it causes."""
        document = msgspec.json.decode(self.event(key, version, body))
        return self.handle({**document, "time": self.now})

    def tick(self, milliseconds: int) -> list[dict[str, Any]]:
        """Advance the clock."""
        self.now += milliseconds
        tick = {"id": f"t{self.now}", "cluster": "bench", "kind": "tick", "time": self.now}
        return self.handle(tick)

    def handle(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Handle an event and return the responses."""
        self.events += 1
        rows = self.cell.handle(msgspec.json.encode(event), Position(0, self.events))
        return [response_of(row) for row in rows if row.topic in (RESPONSES, DEAD_LETTERS)]

    def state_bytes(self) -> int:
        """The size of the state's columns."""
        self.cell.commit()
        return sum(map(len, self.cell.columns().values()))


def response_of(row: Output) -> dict[str, Any]:
    """Return a response. Raises `GrowthMismatch` for a dead letter."""
    if row.topic == DEAD_LETTERS or row.value is None:
        raise GrowthMismatch(row.value)
    found: dict[str, Any] = msgspec.json.decode(row.value)
    return found


def timed(bed: GroupBed, begin: float, events: int) -> GroupTimes:
    """Return events and time since `begin`."""
    seconds = time.process_time() - begin
    return GroupTimes(bed.events - events, seconds, bed.state_bytes())


# Commits


def commit_body(group: int, offset: int, partitions: int) -> dict[str, Any]:
    """Return an OffsetCommit by a group without members."""
    committed = [{"partitionIndex": n, "committedOffset": offset} for n in range(partitions)]
    topics = [{"name": TOPIC, "partitions": committed}]
    return {"groupId": f"group-{group}", "generationIdOrMemberEpoch": -1, "topics": topics}


def commit_all(bed: GroupBed, groups: int, offset: int) -> GroupTimes:
    """Commit an offset for each partition in each group."""
    begin, events = time.process_time(), bed.events
    for group in range(groups):
        (answer,) = bed.send(8, 8, commit_body(group, offset, bed.partitions))
        if _ERROR.search(msgspec.json.encode(answer["response"])):
            raise GrowthMismatch(answer)
    return timed(bed, begin, events)


def load(bed: GroupBed) -> GroupTimes:
    """Load the cell from its columns and handle a first commit."""
    columns = bed.cell.columns()
    begin, events = time.process_time(), bed.events
    bed.cell = Cell(bed.settings, columns)
    bed.send(8, 8, commit_body(0, 2, bed.partitions))
    return timed(bed, begin, events)


def check_offsets(bed: GroupBed, groups: int, offset: int) -> None:
    """Check the last committed offsets. Raises `GrowthMismatch`."""
    for group in range(groups):
        (answer,) = bed.send(9, 7, {"groupId": f"group-{group}", "topics": None})
        (topic,) = answer["response"]["topics"]
        found = {each["partitionIndex"]: each["committedOffset"] for each in topic["partitions"]}
        if found != dict.fromkeys(range(bed.partitions), offset):
            raise GrowthMismatch(answer)


# Rebalances


def without_error(responses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return responses without an error. Raises `GrowthMismatch`."""
    found = [each["response"] for each in responses]
    wrong = [each for each in found if each.get("errorCode", 0)]
    if wrong:
        raise GrowthMismatch(wrong[0])
    return found


def joined(bed: GroupBed, members: list[str]) -> list[dict[str, Any]]:
    """Join all members; return the responses to the completed rebalance."""
    answers: list[dict[str, Any]] = []
    for member in members:
        body = {
            "groupId": "classic",
            "sessionTimeoutMs": 1_800_000,
            "rebalanceTimeoutMs": 60_000,
            "memberId": member,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": EMPTY_SUBSCRIPTION}],
        }
        answers += without_error(bed.send(11, 3, body))
    while len(answers) < len(members):
        answers += without_error(bed.tick(1_000))
    return answers


def synced(bed: GroupBed, responses: list[dict[str, Any]]) -> list[str]:
    """Assign as the leader and sync all; return the members.

    Raises `GrowthMismatch` unless each member receives its assignment.
    """
    leader = next(each for each in responses if each["memberId"] == each["leader"])
    members = [each["memberId"] for each in leader["members"]]
    assignments = [
        {
            "memberId": member,
            "assignment": base64.b64encode(
                assignment_bytes({TOPIC: list(range(at, bed.partitions, len(members)))}, 0)
            ).decode(),
        }
        for at, member in enumerate(members)
    ]
    base = {"groupId": "classic", "generationId": leader["generationId"]}
    answers: list[dict[str, Any]] = []
    for member in [leader["leader"], *(each for each in members if each != leader["leader"])]:
        body = {**base, "memberId": member, "assignments": []}
        if member == leader["leader"]:
            body["assignments"] = assignments
        answers += without_error(bed.send(14, 2, body))
    shares = sorted(each["assignment"] for each in answers)
    if shares != sorted(str(each["assignment"]) for each in assignments):
        raise GrowthMismatch("not all members have their assignments")
    return members


def rebalance_classic(bed: GroupBed, count: int) -> tuple[GroupTimes, GroupTimes]:
    """Rebalance a classic group after all join, and after one leaves."""
    begin, events = time.process_time(), bed.events
    members = synced(bed, joined(bed, [""] * count))
    first = timed(bed, begin, events)
    begin, events = time.process_time(), bed.events
    without_error(bed.send(13, 2, {"groupId": "classic", "memberId": members[-1]}))
    synced(bed, joined(bed, members[:-1]))
    return first, timed(bed, begin, events)


class BenchConsumer:
    """A KIP-848 member that gives up revoked partitions at once."""

    def __init__(self, bed: GroupBed, number: int) -> None:
        self._bed = bed
        self._id = f"member-{number}"
        self.epoch = 0
        self.owned: list[int] = []
        self._has_news = False

    def beat(self) -> bool:
        """Send a heartbeat; return whether epoch or assignment changed."""
        owned = [{"topicId": self._bed.topic_id, "partitions": self.owned}] if self.owned else []
        body: dict[str, Any] = {"groupId": "kip848", "memberId": self._id}
        if self.epoch == 0:
            body |= {"subscribedTopicNames": [TOPIC], "rebalanceTimeoutMs": 60_000}
        if self.epoch == 0 or self._has_news:
            body["topicPartitions"] = owned
        (response,) = without_error(self._bed.send(68, 1, {**body, "memberEpoch": self.epoch}))
        self._has_news = response["assignment"] is not None or response["memberEpoch"] != self.epoch
        self.epoch = response["memberEpoch"]
        if response["assignment"] is not None:
            places = response["assignment"]["topicPartitions"]
            self.owned = [number for each in places for number in each["partitions"]]
        return self._has_news

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = -1
        self._bed.send(68, 1, {"groupId": "kip848", "memberId": self._id, "memberEpoch": -1})


def settle(bed: GroupBed, consumers: list[BenchConsumer]) -> None:
    """Send heartbeats in turn until nothing changes.

    Raises `GrowthMismatch` unless all partitions are assigned.
    """
    for _ in range(ROUNDS_MAX):
        bed.tick(BEAT_MS)
        news = [each.beat() for each in consumers]
        if not any(news):
            break
    owned = sorted(number for each in consumers for number in each.owned)
    if owned != list(range(bed.partitions)):
        raise GrowthMismatch(f"{len(owned)} partitions are owned, of {bed.partitions}")


def rebalance_consumers(bed: GroupBed, count: int) -> tuple[GroupTimes, GroupTimes]:
    """Rebalance a KIP-848 group after all join, and after one leaves."""
    begin, events = time.process_time(), bed.events
    consumers = [BenchConsumer(bed, number) for number in range(count)]
    settle(bed, consumers)
    first = timed(bed, begin, events)
    begin, events = time.process_time(), bed.events
    consumers.pop().leave()
    settle(bed, consumers)
    return first, timed(bed, begin, events)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--members", type=int, default=1_000)
    given = parser.parse_args()
    found: dict[str, GroupTimes] = {}
    try:
        bed = GroupBed(given.partitions)
        found["commit"] = commit_all(bed, given.groups, 1)
        found["again"] = commit_all(bed, given.groups, 2)
        found["load"] = load(bed)
        check_offsets(bed, given.groups, 2)
        beds = [GroupBed(2 * given.members) for _ in range(2)]
        found["classic"], found["classic, one goes"] = rebalance_classic(beds[0], given.members)
        found["consumer"], found["consumer, one goes"] = rebalance_consumers(beds[1], given.members)
    except GrowthMismatch as wrong:
        print(f"no figures: {wrong}", file=sys.stderr)
        return 1
    print(f"{'':<20} {'events':>8} {'seconds':>9} {'events/s':>9} {'state':>13}")
    for name, each in found.items():
        rate = each.events / each.seconds
        print(
            f"{name:<20} {each.events:>8,} {each.seconds:>9.2f} {rate:>9,.0f}"
            f" {each.state_bytes:>11,} B"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
