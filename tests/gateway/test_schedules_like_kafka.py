"""Schedules of stops, kills and elections, compared with a real cluster."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.goldens import IS_LIVE, tape
from tests.support.patience import PATIENCE_S
from tests.support.schedules import SETTINGS, Caller, our_cluster, real_cluster
from tests.support.stepped_clock import fast_clock

PREFERRED, UNCLEAN = 0, 1
NOBODY = -1
ALL = (1, 2, 3)
SPEED = 20
"""Speed of our brokers' clock during a replay."""


class Call(NamedTuple):
    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, caller: Caller) -> Any:
        return getattr(caller, self.method)(*self.arguments, **self.named)


def call(method: str, *arguments: Any, **named: Any) -> Call:
    return Call(method, arguments, named)


class Quiet(NamedTuple):
    """Wait until the partition is so, then every call; a real broker is a little later."""

    leader: int
    in_sync: tuple[int, ...] = ALL
    brokers: tuple[int, ...] = ALL

    def __call__(self, caller: Caller) -> Any:
        caller.until(*self)
        caller.until_led(self.leader)
        return caller.calls(self.leader)


class Left(NamedTuple):
    """Wait until the partition is so, led or not; then describe it."""

    leader: int
    in_sync: list[int]
    eligible: list[int]

    def __call__(self, caller: Caller) -> Any:
        caller.until_eligible(*self)
        return caller.eligible(), caller.described()


class InSync(NamedTuple):
    """The in-sync replicas; a real broker knows them a little later."""

    def __call__(self, caller: Caller) -> Any:
        return caller.described()["isrNodes"]


Step = Call | Quiet | Left | InSync


def act(verb: str, broker: int) -> Call:
    return call("act", verb, broker)


def produce(leader: int, acks: int = -1) -> Call:
    return call("produce", leader, b"a record", acks)


def elect(election_type: int, **where: Any) -> Call:
    return call("elect", election_type, **where)


def reassign(replicas: list[int] | None) -> Call:
    return call("reassign", replicas)


STOP_KILL_ELECT: dict[str, Step] = {
    "created": call("create"),
    "at first": Quiet(2),
    "for all": produce(2),
    "3 stops": act("stop", 3),
    "without 3": Quiet(2, (1, 2), (1, 2)),
    "for two": produce(2),
    "1 has heard": call("until_heard", 2, 1),
    "2 is killed": act("kill", 2),
    "1 alone": Quiet(1, (1,), (1,)),
    "too few": produce(1),
    "for the leader": produce(1, acks=1),
    "not available": elect(PREFERRED),
    "2 starts": act("start", 2),
    "2 is back": Quiet(1, (1, 2), (1, 2)),
    "for two again": produce(1),
    "2 is preferred": elect(PREFERRED),
    "2 leads": Quiet(2, (1, 2), (1, 2)),
    "not needed": elect(PREFERRED),
    "no such partition": elect(PREFERRED, partition=7),
    "for two of 2": produce(2),
}

HALT_REASSIGN: dict[str, Step] = {
    "created": call("create"),
    "at first": Quiet(2),
    "for all": produce(2),
    "3 is halted": act("halt", 3),
    "until 3 has left": produce(2),
    "left": InSync(),
    "3 goes on": act("rejoin", 3),
    "3 is back": Quiet(2),
    "2 is halted": act("halt", 2),
    "3 leads when its session is over": Quiet(3, (1, 3), (1, 3)),
    "for two without 2": produce(3),
    "2 goes on": act("rejoin", 2),
    "2 follows": Quiet(3),
    "2 is preferred": elect(PREFERRED),
    "2 leads again": Quiet(2),
    "for all of 2": produce(2),
    "nothing to cancel": reassign(None),
    "no such broker": reassign([2, 9]),
    "twice the same": reassign([2, 2]),
    "1 and 2": reassign([1, 2]),
    "reassigned": Quiet(2, (1, 2)),
    "for two": produce(2),
    "elected": elect(PREFERRED),
    "1 leads": Quiet(1, (1, 2)),
    "3 in place of 1": reassign([3, 2]),
    "moved": Quiet(3, (2, 3)),
    "for the new": produce(3),
    "2 has heard": call("until_heard", 3, 2),
    "3 is killed": act("kill", 3),
    "2 alone": Quiet(2, (2,), (1, 2)),
    "too few": produce(2),
    "somebody leads": elect(UNCLEAN),
    "3 starts": act("start", 3),
    "3 is in sync": Quiet(2, (2, 3)),
    "back to three": reassign([2, 3, 1]),
    "at last": Quiet(2),
}

EMPTY_IN_SYNC_SET: dict[str, Step] = {
    "created": call("create", [2, 3]),
    "at first": Quiet(2, (2, 3)),
    "for both": produce(2),
    "3 has heard": call("until_heard", 2, 3),
    "3 stops": act("stop", 3),
    "3 is eligible": Left(2, [2], [3]),
    "for the leader": produce(2, acks=1),
    "not committed": Quiet(2, (2,), (1, 2)),
    "2 stops": act("stop", 2),
    "nobody is in sync": Left(NOBODY, [], [2, 3]),
    "nobody is alive": elect(UNCLEAN),
    "3 starts": act("start", 3),
    "3 leads, being eligible": Left(3, [3], [2]),
    "as far as it knows": Quiet(3, (3,), (1, 3)),
    "too few": produce(3),
    "for 3": produce(3, acks=1),
    "2 is not there": elect(PREFERRED),
    "3 is killed": act("kill", 3),
    "nobody again": Left(NOBODY, [], [2, 3]),
    "3 starts uncleanly": act("start", 3),
    "3 is eligible no more": Left(NOBODY, [], [2]),
    "another min.insync.replicas": call("alter_config", "1"),
    "nobody is eligible": Left(NOBODY, [], []),
    "not of brokers": call("alter_config", "", 4, "1"),
    "nor of the cluster": call("alter_config", "", 4, ""),
    "nobody is preferred": elect(PREFERRED),
    "anybody": elect(UNCLEAN),
    "3 leads uncleanly": Left(3, [3], []),
    "2 starts": act("start", 2),
    "both": Quiet(3, (2, 3)),
    "3 is killed again": act("kill", 3),
    "2 leads": Left(2, [2], []),
    "2 is killed": act("kill", 2),
    "2 led last": Left(NOBODY, [], [2]),
    "2 starts uncleanly": act("start", 2),
    "the last known leader": Left(2, [2], []),
    "without 3": Quiet(2, (2,), (1, 2)),
    "3 starts once more": act("start", 3),
    "all are there": Quiet(2, (2, 3)),
    "both are needed": call("alter_config", "2"),
    "3 ends": act("stop", 3),
    "3 has all that is committed": Left(2, [2], [3]),
    "not for two": produce(2, acks=1),
    "the high watermark stands": Quiet(2, (2,), (1, 2)),
    "one is enough": call("alter_config", "1"),
    "3 has not all": Left(2, [2], []),
    "it still stands": Quiet(2, (2,), (1, 2)),
    "one more": produce(2),
    "it rises": Quiet(2, (2,), (1, 2)),
    "3 is there again": act("start", 3),
    "in sync": Quiet(2, (2, 3)),
    "of the topic": call("alter_config", "2"),
    "3 goes": reassign([2]),
    "3 is eligible and no replica": Left(2, [2], [3]),
    "of the cluster": call("alter_config", "1", 4, ""),
    "no more": Left(2, [2], []),
}
"""Topics with two or three replicas, at least two in sync."""

SCHEDULES = {
    "stop, kill, elect": STOP_KILL_ELECT,
    "empty in-sync set": EMPTY_IN_SYNC_SET,
    "halt, reassign": HALT_REASSIGN,
}


def as_ours(do: Step, real: Caller, ours: Any) -> Any:
    """Return the response of a real cluster, which may apply changes later than ours."""
    result = do(real)
    deadline = time.monotonic() + PATIENCE_S
    is_seen_late = isinstance(do, Quiet | Left | InSync)
    while is_seen_late and result != ours and time.monotonic() < deadline:
        result = do(real)
    return result


@pytest.mark.compares
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_has_the_responses_of_a_real_cluster(name: str, tmp_path: Path) -> None:
    golden = f"schedules/{name.replace(', ', '_').replace(' ', '_')}"
    with (
        real_cluster(tmp_path, len(ALL), SETTINGS) if IS_LIVE else nullcontext() as real,
        tape(golden, SETTINGS) as recording,
        our_cluster(len(ALL), SETTINGS, fast_clock(SPEED)) as cluster,
    ):
        ours = Caller(cluster)
        for step, do in SCHEDULES[name].items():
            got = do(ours)

            def send(do: Step = do, got: Any = got) -> Any:
                assert real is not None
                return as_ours(do, Caller(real), got)

            assert got == recording.response([step, type(do).__name__, *do], send), step
