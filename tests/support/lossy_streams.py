"""Threads of a word count whose connections are cut, who crash, pause, come and go.

play = LossyStreams(exactly_once=True)
play.play([(Step.SEND, 3), (Step.KILL, 0), (Step.CUT, 2)])
play.settle()
assert play.violations == []
"""

from collections import Counter
from enum import StrEnum
from typing import Any

from brokertwin.clients.streams.applications import word_count
from brokertwin.clients.streams.stream_thread import StreamThread
from tests.support.streams_world import (
    APPLICATION,
    POLL_INTERVAL_MS,
    SESSION_MS,
    TRANSACTION_MS,
    StreamsWorld,
)

PARTITIONS = 3
INSTANCES = ("a", "b")
THREADS_MAX = 4
STEP_MS = 100
PAUSES = (1, 200, 1_000, 3_000, 7_000, 10_000)
SETTLED_MS = SESSION_MS + 3 * POLL_INTERVAL_MS + 2 * TRANSACTION_MS
WORDS = (b"to", b"be", b"or", b"not")


class Step(StrEnum):
    """Possible next events; the number with an event chooses the place or the amount."""

    WAIT = "time passes"
    SEND = "lines are written"
    CUT = "a connection is closed"
    MUTE = "answers stay away for a while, or come again"
    PAUSE = "a thread does nothing for a while, or goes on"
    KILL = "a thread crashes"
    CLOSE = "a thread ends as it is asked to"
    START = "a thread comes"


FAULTS = ("cuts", "mutes", "pauses", "kills", "restarts")
Schedule = list[tuple[Step, int]]


class LossyStreams:
    """Events, and violations of the invariants."""

    def __init__(self, *, exactly_once: bool, **config: Any) -> None:
        self.exactly_once = exactly_once
        counts = {"text": PARTITIONS, "counts": 1}
        self.made = StreamsWorld(
            word_count("text", "counts"),
            counts,
            exactly_once=exactly_once,
            brokers=(1, 2),
            **config,
        )
        self.violations: list[str] = []
        self.injected: Counter[str] = Counter()
        self.sent: Counter[bytes] = Counter()
        self.paused: dict[str, StreamThread] = {}
        self._written: dict[str, int] = {}
        self._rows_seen = 0
        self._stuck_since: dict[str, int] = {}
        self.start(0)

    def play(self, schedule: Schedule) -> None:
        for step, number in schedule:
            living = sorted(self.made.threads)
            if step is Step.START:
                self.start(number)
            elif step is Step.SEND:
                self._send(number)
            elif step is Step.WAIT:
                self.wait(PAUSES[number % len(PAUSES)])
            elif step is Step.PAUSE and self.paused:
                self._go_on()
            elif living:
                self._befall(step, living[number % len(living)], number)
            self.turn()

    def start(self, number: int) -> None:
        if len(self.made.threads) < THREADS_MAX:
            self.made.start(INSTANCES[number % len(INSTANCES)])

    def _send(self, number: int) -> None:
        for at in range(number + 1):
            line = [WORDS[(number + at) % len(WORDS)], WORDS[at % len(WORDS)]]
            self.sent.update(line)
            self.made.send("text", b" ".join(line), b"%d" % at)

    def _befall(self, step: Step, name: str, number: int) -> None:
        networks = self.made.networks(name)
        network = networks[number % len(networks)]
        if step is Step.CUT and network.nodes:
            self.injected["cuts"] += 1
            network.cut(network.nodes[number % len(network.nodes)])
        elif step is Step.MUTE:
            self.injected["mutes"] += 1
            network.is_mute = not network.is_mute
        elif step is Step.KILL:
            self.injected["kills"] += 1
            self.made.kill(name)
        elif step is Step.CLOSE:
            self.injected["closes"] += 1
            self.made.threads[name].close()
        elif step is Step.PAUSE:
            self.injected["pauses"] += 1
            self.paused[name] = self.made.pause(name)

    def _go_on(self) -> None:
        for name, thread in self.paused.items():
            self.made.go_on(name, thread)
        self.paused.clear()

    def wait(self, milliseconds: int) -> None:
        until = self.made.now + milliseconds
        while self.made.now < until:
            self.turn()

    def turn(self) -> None:
        before = {name: thread.restarts for name, thread in self.made.threads.items()}
        self.made.turn(STEP_MS)
        for name, thread in self.made.threads.items():
            self.injected["restarts"] += thread.restarts - before.get(name, 0)
            self.injected["tasks run"] += len(thread.running)
        for name, error in self.made.errors.items():
            self.violations.append(f"{name} ended with {error}")
        self.made.errors.clear()
        self._check()

    def _check(self) -> None:
        """Check that no two threads of the group run a task and that offsets go forward."""
        here = self._members()
        owners: Counter[str] = Counter()
        for thread in [*self.made.threads.values(), *self.paused.values()]:
            if thread.consumer.coordinator.generation.member_id in here:
                owners.update(map(str, thread.tasks))
        self.violations += [f"{task} has {n} threads" for task, n in owners.items() if n > 1]
        bench = self.made.world.bench
        rows, self._rows_seen = bench.rows[self._rows_seen :], len(bench.rows)
        for record in bench.records_of(rows):
            made = record["record"]
            if made["type"] == "OffsetCommitted":
                at = f"{made['topic']}-{made['partition']}" if "topic" in made else str(made)
                if made["offset"] < self._written.get(at, 0):
                    self.violations.append(f"{at} goes back to {made['offset']}")
                self._written[at] = made["offset"]

    def _members(self) -> set[str]:
        found: set[str] = set()
        bench = self.made.world.bench
        for broker in bench.settings.brokers:
            body = {"groups": [APPLICATION]}
            group = bench.request("DESCRIBE_GROUPS", 5, body, broker=broker)["groups"][0]
            found |= {member["memberId"] for member in group["members"]}
        return found

    def settle(self) -> int:
        """Nothing goes wrong any more: until all is run and counted; how long that took, in ms."""
        self._go_on()
        for network in self.made.world.networks.values():
            network.is_mute = False
        if not any(not thread.is_closing for thread in self.made.threads.values()):
            self.made.start("c")
        began = self.made.now
        while not self._is_at_rest():
            self.turn()
            if self.made.now - began > SETTLED_MS:
                self.violations.append(f"not at rest: {self.made.tasks()} {self._counted()}")
                break
        self._check_counts()
        return self.made.now - began

    def _is_at_rest(self) -> bool:
        if not self.made.all_run() or not self.made.feeder.producer.is_idle:
            return False
        counted = self._counted()
        return all(counted.get(word, 0) >= count for word, count in self.sent.items())

    def _counted(self) -> dict[bytes, int]:
        newest = self.made.newest("counts")
        return {word or b"": int(count or 0) for word, count in newest.items()}

    def _check_counts(self) -> None:
        """Once: each count from 1 to the last, one after the other. At least once: none missing."""
        self.wait(2_000)
        written = self.made.read("counts")
        for word, count in self.sent.items():
            found = [int(each.value or 0) for each in written if each.key == word]
            if self.exactly_once and found != list(range(1, count + 1)):
                self.violations.append(f"{word!r} is counted {found}, not up to {count}")
            if max(found, default=0) < count:
                self.violations.append(f"{word!r} is counted {found[-1:]}, less than {count}")
