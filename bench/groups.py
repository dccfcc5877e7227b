"""Many groups that commit, and large groups that rebalance.

    python bench/groups.py [--groups 50000] [--partitions 20] [--members 1000]

One cell in this process, as the gateway's local engine has it; processor time, that of making the
requests and reading the answers included. Events are handled one after the other; a cell encodes
what has changed every 500 events.

    commit    each group commits all its partitions in one request, for the first time
    again     each does so once more
    load      a cell from the stored columns, as after a restart; its first commit is in it
    classic   members join, the leader assigns, all sync; then one goes, and all do it again
    consumer  members of KIP-848 join, and send heartbeats until nothing changes; then one goes

A run is valid only if every answer is free of errors, every offset comes back from a fetch, and in
the end each partition has one owner; otherwise nothing is printed.
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
    """How many events took how many seconds, and the size of the state after it in bytes."""

    events: int
    seconds: float
    state_bytes: int


class GroupBed(GrowthBed):
    """The bed of `growth`, whose clock goes on, with a topic of many partitions."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.now = START
        self.topic_id = self.topic(TOPIC, 3, partitions)
        self.partitions = partitions
        self.events = 0

    def ask(self, key: int, version: int, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Handles a request; the answers that it gives, to whomever. Raises GrowthMismatch."""
        document = msgspec.json.decode(self.event(key, version, body))
        return self.handle({**document, "time": self.now})

    def tick(self, milliseconds: int) -> list[dict[str, Any]]:
        """Lets time pass."""
        self.now += milliseconds
        tick = {"id": f"t{self.now}", "cluster": "bench", "kind": "tick", "time": self.now}
        return self.handle(tick)

    def handle(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers of an event."""
        self.events += 1
        rows = self.cell.handle(msgspec.json.encode(event), Position(0, self.events))
        return [answer_of(row) for row in rows if row.topic in (RESPONSES, DEAD_LETTERS)]

    def state_bytes(self) -> int:
        """The size of the state's columns."""
        self.cell.commit()
        return sum(map(len, self.cell.columns().values()))


def answer_of(row: Output) -> dict[str, Any]:
    """An answer; Raises GrowthMismatch for a dead letter."""
    if row.topic == DEAD_LETTERS or row.value is None:
        raise GrowthMismatch(row.value)
    found: dict[str, Any] = msgspec.json.decode(row.value)
    return found


def timed(bed: GroupBed, begin: float, events: int) -> GroupTimes:
    """What has passed since."""
    seconds = time.process_time() - begin
    return GroupTimes(bed.events - events, seconds, bed.state_bytes())


# Commits


def commit_body(group: int, offset: int, partitions: int) -> dict[str, Any]:
    """An OffsetCommit of a group without members."""
    committed = [{"partitionIndex": n, "committedOffset": offset} for n in range(partitions)]
    topics = [{"name": TOPIC, "partitions": committed}]
    return {"groupId": f"group-{group}", "generationIdOrMemberEpoch": -1, "topics": topics}


def commit_all(bed: GroupBed, groups: int, offset: int) -> GroupTimes:
    """Each group commits an offset for each partition."""
    begin, events = time.process_time(), bed.events
    for group in range(groups):
        (answer,) = bed.ask(8, 8, commit_body(group, offset, bed.partitions))
        if _ERROR.search(msgspec.json.encode(answer["response"])):
            raise GrowthMismatch(answer)
    return timed(bed, begin, events)


def load(bed: GroupBed) -> GroupTimes:
    """The cell from its columns, and the first commit that it takes."""
    columns = bed.cell.columns()
    begin, events = time.process_time(), bed.events
    bed.cell = Cell(bed.settings, columns)
    bed.ask(8, 8, commit_body(0, 2, bed.partitions))
    return timed(bed, begin, events)


def check_offsets(bed: GroupBed, groups: int, offset: int) -> None:
    """Every group has what it committed last. Raises GrowthMismatch."""
    for group in range(groups):
        (answer,) = bed.ask(9, 7, {"groupId": f"group-{group}", "topics": None})
        (topic,) = answer["response"]["topics"]
        found = {each["partitionIndex"]: each["committedOffset"] for each in topic["partitions"]}
        if found != dict.fromkeys(range(bed.partitions), offset):
            raise GrowthMismatch(answer)


# Rebalances


def answered(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Responses without an error. Raises GrowthMismatch."""
    found = [each["response"] for each in answers]
    wrong = [each for each in found if each.get("errorCode", 0)]
    if wrong:
        raise GrowthMismatch(wrong[0])
    return found


def joined(bed: GroupBed, members: list[str]) -> list[dict[str, Any]]:
    """All join; what they are told when the last of them has."""
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
        answers += answered(bed.ask(11, 3, body))
    while len(answers) < len(members):
        answers += answered(bed.tick(1_000))
    return answers


def synced(bed: GroupBed, told: list[dict[str, Any]]) -> list[str]:
    """The leader assigns, and all sync; the members. Raises GrowthMismatch unless each has its share."""
    leader = next(each for each in told if each["memberId"] == each["leader"])
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
        answers += answered(bed.ask(14, 2, body))
    shares = sorted(each["assignment"] for each in answers)
    if shares != sorted(str(each["assignment"]) for each in assignments):
        raise GrowthMismatch("not all members have their assignments")
    return members


def rebalance_classic(bed: GroupBed, count: int) -> tuple[GroupTimes, GroupTimes]:
    """Members of the classic protocol: all come, then one goes."""
    begin, events = time.process_time(), bed.events
    members = synced(bed, joined(bed, [""] * count))
    first = timed(bed, begin, events)
    begin, events = time.process_time(), bed.events
    answered(bed.ask(13, 2, {"groupId": "classic", "memberId": members[-1]}))
    synced(bed, joined(bed, members[:-1]))
    return first, timed(bed, begin, events)


class BenchConsumer:
    """A member of KIP-848 that gives back at once what it is asked for."""

    def __init__(self, bed: GroupBed, number: int) -> None:
        self._bed = bed
        self._id = f"member-{number}"
        self.epoch = 0
        self.owned: list[int] = []
        self._has_news = False

    def beat(self) -> bool:
        """Sends a heartbeat; whether it brought anything new."""
        owned = [{"topicId": self._bed.topic_id, "partitions": self.owned}] if self.owned else []
        body: dict[str, Any] = {"groupId": "kip848", "memberId": self._id}
        if self.epoch == 0:
            body |= {"subscribedTopicNames": [TOPIC], "rebalanceTimeoutMs": 60_000}
        if self.epoch == 0 or self._has_news:
            body["topicPartitions"] = owned
        (told,) = answered(self._bed.ask(68, 1, {**body, "memberEpoch": self.epoch}))
        self._has_news = told["assignment"] is not None or told["memberEpoch"] != self.epoch
        self.epoch = told["memberEpoch"]
        if told["assignment"] is not None:
            places = told["assignment"]["topicPartitions"]
            self.owned = [number for each in places for number in each["partitions"]]
        return self._has_news

    def leave(self) -> None:
        """Leaves for good."""
        self.epoch = -1
        self._bed.ask(68, 1, {"groupId": "kip848", "memberId": self._id, "memberEpoch": -1})


def settle(bed: GroupBed, consumers: list[BenchConsumer]) -> None:
    """Heartbeats in turn until nobody hears anything new. Raises GrowthMismatch unless all is shared."""
    for _ in range(ROUNDS_MAX):
        bed.tick(BEAT_MS)
        news = [each.beat() for each in consumers]
        if not any(news):
            break
    owned = sorted(number for each in consumers for number in each.owned)
    if owned != list(range(bed.partitions)):
        raise GrowthMismatch(f"{len(owned)} partitions are owned, of {bed.partitions}")


def rebalance_consumers(bed: GroupBed, count: int) -> tuple[GroupTimes, GroupTimes]:
    """Members of KIP-848: all come, then one goes."""
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
