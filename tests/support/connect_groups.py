"""Changing groups of Connect workers, drawn at random, with our assignor in the leader."""

import base64
from random import Random
from typing import Any

from brokertwin.clients.connect.connect_protocol import (
    Assignment,
    ConnectProtocol,
    WorkerState,
    decode_assignment,
    encode_state,
)
from brokertwin.clients.connect.leader import ConnectLeader, KnownConfigs
from brokertwin.clients.connect.work import ConnectTaskId

ROUNDS = 12
DELAYS_MS = (0, 1, 30, 5_000, 300_000)
PAUSES_MS = (0, 10, 100, 1_000, 5_000, 400_000)


class Workers:
    """Workers of one group, whose first is its leader."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.protocol = self.chance.choice(
            [*[ConnectProtocol.SESSIONED] * 3, ConnectProtocol.COMPATIBLE]
        )
        if self.chance.random() < 0.1:
            self.protocol = ConnectProtocol.EAGER
        self.max_delay_ms = self.chance.choice(DELAYS_MS)
        self.leader = ConnectLeader(self.max_delay_ms)
        self.now, self.round, self.generation, self.completed = 1_000_000, 0, 1, -1
        self.running: dict[str, list[ConnectTaskId]] = {}
        self.task_counts: dict[str, int] = {}
        self.offset = 0
        self.behind: set[str] = set()
        self.delays: list[int] = []
        self.change()

    def change(self) -> None:
        """Workers come and go, connectors are made, changed and deleted; time passes."""
        draw = self.chance
        self.now += draw.choice(PAUSES_MS)
        for name in list(self.running)[1:]:
            if draw.random() < 0.15:
                del self.running[name]
        for _ in range(draw.choice([0, 0, 1, 1, 3]) if self.running else 1):
            self.running[f"worker-{draw.getrandbits(20):x}"] = []
        if draw.random() < 0.4 or not self.offset:
            self.offset += 1
            name = f"{draw.choice(['sink', 'source', 'copy'])}{draw.randint(0, 3)}"
            if draw.random() < 0.3:
                self.task_counts.pop(name, None)
            else:
                self.task_counts[name] = draw.choice([0, 1, 2, 3, 8])

    def request(self) -> dict[str, Any]:
        """Input of the leader; it may be outdated."""
        ahead = self.chance.random() < 0.05
        members = {}
        for name, items in self.running.items():
            of_it = Assignment(assigned=tuple(items), config_offset=self.offset, leader="l")
            worker_state = WorkerState(
                f"http://{name}", self.offset + ahead, of_it if items else None
            )
            members[name] = encode_state(worker_state, self.protocol)
        return {
            "round": self.round,
            "maxDelayMs": self.max_delay_ms,
            "now": self.now,
            "protocol": self.protocol,
            "leader": next(iter(self.running)),
            "offset": self.offset,
            "taskCounts": dict(self.task_counts),
            "generation": self.generation,
            "lastCompleted": self.completed,
            "members": members,
        }

    def assign(self, request: dict[str, Any]) -> dict[str, bytes]:
        return self.leader.assign(
            self.now,
            self.protocol,
            request["leader"],
            request["members"],
            KnownConfigs(self.offset, request["taskCounts"]),
            generation=self.generation,
            last_completed=self.completed,
        )

    def take(self, given: dict[str, bytes]) -> None:
        """Let workers run their assignments, except those that miss them; all join again."""
        got = {name: decode_assignment(data) for name, data in given.items()}
        for name, each in got.items():
            self.delays.append(each.delay_ms)
            if each.has_failed or self.chance.random() < 0.08:
                continue
            kept = [] if self.protocol is ConnectProtocol.EAGER else self.running[name]
            kept = [item for item in kept if item not in each.revoked]
            self.running[name] = list(dict.fromkeys([*each.assigned, *kept]))
        if self.chance.random() < 0.05 and len(self.running) > 1:
            first, second, *_ = self.running
            self.running[second] += self.running[first][:1]
        if self.chance.random() > 0.05:
            self.completed = self.generation
        self.generation += 1
        self.round += 1


def as_json(request: dict[str, Any]) -> dict[str, Any]:
    """The question as Java reads it."""
    members = {name: base64.b64encode(data).decode() for name, data in request["members"].items()}
    return {**request, "members": members}
