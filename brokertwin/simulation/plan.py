"""The plan of a seed: a cluster, its clients and faults, all drawn in advance.

A plan can be shrunk: removing injections or clients does not change the others.
"""

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import TypeVar

import msgspec

ACTIVE_MS = 8_000
"""Time in which clients have new work and faults occur."""

INJECTIONS_MIN, INJECTIONS_MAX = 4, 20
SHORTEST_MS, LONGEST_MS = 50, 5_000
TOPICS = ("orders", "payments")
LINES, TALLIES = "lines", "tallies"
"""Output topics of applications."""

CONFIGS, OFFSETS = "connect-configs", "connect-offsets"
PASSING = "passing"
"""A topic that is created and deleted in some runs."""

TWO_AWAY = 0.5
"""Probability that two of three brokers may be away, which leaves too few in sync."""

ALL_IN_SYNC = 0.25
"""Probability that all replicas must be in sync, so each broker away blocks writes."""

FETCH_BYTES, SMALL_FETCH_BYTES = 1_048_576, 150
SMALL_FETCHES = 0.3
"""`replica.fetch.max.bytes`: Kafka's, or small enough for one batch, and its probability."""

LAG_MS, SHORT_LAG_MS = 2_500, 800
SHORT_LAGS = 0.5
"""`replica.lag.time.max.ms`, and the probability that leaders often shrink their in-sync sets."""

BEFORE_KIP_890 = 0.3
"""Probability of transactions before KIP-890 (`transaction.version` 1)."""

UNVERIFIED = 0.5
"""Probability that these are not verified: `transaction.partition.verification.enable`."""

ADMINISTERED = 0.1
CHANGES_MAX = 3
DENIED, DENIED_ELSE = 0.05, 0.12
SHARES = 0.18
"""Probability of a share group; in half of these runs no broker is away."""

MIXED = 0.3
"""Probability that a run without share group and application has members of `Role.MIXED`."""

Choice = TypeVar("Choice")


class EngineKind(StrEnum):
    """A local engine, or a job in micro-batches."""

    LOCAL = "local"
    JOB = "job"


class Role(StrEnum):
    PRODUCER = "idempotent producer"
    TRANSACTIONS = "transactional producer"
    CLASSIC = "member of a classic group"
    CONSUMER = "member of a consumer group"
    COPIER = "reads, and writes in transactions"
    MIXED = "commits offsets with and without transactions"
    SHARER = "member of a share group"
    EAGER_WORKER = "Connect worker, eager"
    WORKER = "Connect worker, cooperative"
    EXACT_WORKER = "Connect worker, exactly once"
    STREAMS = "Streams thread, at least once"
    EXACT_STREAMS = "Streams thread, exactly once"


WORKERS = frozenset({Role.EAGER_WORKER, Role.WORKER, Role.EXACT_WORKER})
THREADS = frozenset({Role.STREAMS, Role.EXACT_STREAMS})
EXACT = frozenset({Role.EXACT_WORKER, Role.EXACT_STREAMS})
APPLICATIONS: dict[int, Role] = {
    7: Role.EXACT_STREAMS,
    23: Role.EXACT_WORKER,
    39: Role.STREAMS,
    55: Role.WORKER,
    71: Role.EAGER_WORKER,
}
APPLICATION_EVERY = 80
"""Seeds, modulo this number, with applications; these take three times as long."""


class FaultKind(StrEnum):
    """Kinds of faults; an injection's `whom` selects the target, `lasts_ms` the duration."""

    BREAK = "connection breaks"
    MUTE = "responses do not arrive"
    SLOW = "network is slow"
    PAUSE = "client pauses"
    CRASH = "client crashes"
    ZOMBIE = "client is replaced, and comes back"
    STOP = "broker stops"
    KILL = "broker is killed"
    ISOLATE = "broker is isolated"
    SEVER = "broker is severed"
    POISON = "poison event"
    LOST_TASK = "task is lost"
    RESTART = "job restarts"
    REASSIGN = "replicas are reassigned"
    ELECT = "preferred leaders are elected"
    DELETE_RECORDS = "records are deleted"
    RETENTION = "records grow old"
    TOPIC = "topic comes and goes"
    DENY = "writing is denied"
    DISK = "log directory fails"
    DENY_READ = "reading is denied"
    DENY_GROUP = "a group is denied"
    DENY_ID = "a transactional id is denied"
    LEAVE = "client is closed, and started again"
    STALL = "application hangs"
    QUOTA = "a client is throttled"
    OFFSETS = "offsets are reset and deleted"


WEIGHTS: dict[FaultKind, int] = {
    FaultKind.BREAK: 8,
    FaultKind.MUTE: 3,
    FaultKind.SLOW: 3,
    FaultKind.PAUSE: 4,
    FaultKind.CRASH: 4,
    FaultKind.ZOMBIE: 4,
    FaultKind.STOP: 4,
    FaultKind.KILL: 6,
    FaultKind.ISOLATE: 5,
    FaultKind.SEVER: 4,
    FaultKind.POISON: 2,
    FaultKind.LOST_TASK: 4,
    FaultKind.RESTART: 2,
}
"""Relative frequency of possible faults."""

OF_OPERATORS = (FaultKind.REASSIGN, FaultKind.ELECT)
"""Faults by an operator, equally likely."""

OPERATED = 0.15
OPERATED_MAX = 3
"""Probability of an operator, and maximum number of its actions."""
OF_ADMINS = (FaultKind.DELETE_RECORDS, FaultKind.RETENTION, FaultKind.TOPIC)
"""Changes by an administrator, in ADMINISTERED of the runs; ACLs are in DENIED of them."""

DISKS, DISKS_MAX = 0.1, 3
"""Probability of failing log directories with several brokers, and maximum of failures."""

OF_DENIALS = (FaultKind.DENY_READ, FaultKind.DENY_GROUP, FaultKind.DENY_ID)
DENIED_TOPIC, DENIED_GROUP, DENIED_ID = "orders", "billing", "orders-tx"
"""What is denied to all users in DENIED_ELSE of the runs without other ACLs."""

OF_STORIES = frozenset({FaultKind.LEAVE, FaultKind.STALL, FaultKind.QUOTA, FaultKind.OFFSETS})
"""Only in histories for the score of findings (`histories.py`)."""

OF_JOBS = frozenset({FaultKind.LOST_TASK, FaultKind.RESTART})
OF_SEVERAL = frozenset({FaultKind.ISOLATE, FaultKind.SEVER})
OF_BROKERS = frozenset(
    {FaultKind.STOP, FaultKind.KILL, FaultKind.ISOLATE, FaultKind.SEVER, FaultKind.DISK}
)
OUTLIVES_SESSIONS = frozenset({FaultKind.PAUSE, FaultKind.ZOMBIE})
"""These last twice as long, so that members often lose their sessions."""


class Injection(msgspec.Struct, frozen=True):
    """A fault: time since the start in ms, kind, target and duration."""

    at_ms: int
    fault: FaultKind
    whom: float
    lasts_ms: int


class ClientPlan(msgspec.Struct, frozen=True):
    """A client: name, role and group.

    `instance` is its group.instance.id, `is_old` limits it to versions of Kafka 2.1, `standbys` is
    `num.standby.replicas` of a Streams thread.
    """

    name: str
    role: Role
    group: str = ""
    is_read_committed: bool = False
    instance: str = ""
    is_old: bool = False
    standbys: int = 0


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A complete run.

    Attributes:
        cells: number of cells; 1 for the local engine.
        is_any_order: whether messages between brokers are delivered in any valid order.
        away_max: maximum number of brokers away at a time.
        is_all_in_sync: whether `min.insync.replicas` is all replicas.
        transaction_version: level of the feature `transaction.version`.
        follower_bytes: `replica.fetch.max.bytes`.
        lag_ms: `replica.lag.time.max.ms`.
        verifies: `transaction.partition.verification.enable`.
        is_checked_whole: whether every check covers the whole state.
        max_poll_ms: `max.poll.interval.ms` of group members.
        expires_fast: whether offsets expire after a minute, transactional ids after six seconds.
    """

    seed: int
    engine: EngineKind
    brokers: int
    cells: int
    partitions: int
    is_any_order: bool
    clients: tuple[ClientPlan, ...]
    injections: tuple[Injection, ...]
    active_ms: int = ACTIVE_MS
    away_max: int = 1
    is_all_in_sync: bool = False
    transaction_version: int = 2
    follower_bytes: int = FETCH_BYTES
    lag_ms: int = LAG_MS
    verifies: bool = True
    is_checked_whole: bool = False
    max_poll_ms: int = 8_000
    expires_fast: bool = False

    def has(self, fault: FaultKind) -> bool:
        return any(each.fault is fault for each in self.injections)

    @property
    def disks(self) -> tuple[str, ...]:
        """Log directories of each broker, if there are several."""
        return ("/disk-1", "/disk-2") if self.has(FaultKind.DISK) else ()

    @property
    def has_acls(self) -> bool:
        return any(map(self.has, (FaultKind.DENY, *OF_DENIALS)))

    @property
    def writers(self) -> tuple[str, ...]:
        """Clients that write to `orders`."""
        roles = (Role.PRODUCER, Role.TRANSACTIONS)
        return tuple(client.name for client in self.clients if client.role in roles)

    @property
    def application(self) -> Role | None:
        roles = (client.role for client in self.clients)
        return next((role for role in roles if role in WORKERS | THREADS), None)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of groups, which are read again at the end."""
        if self.application is None:
            return TOPICS
        return (*TOPICS, LINES if self.application in WORKERS else TALLIES)

    @property
    def replicas(self) -> int:
        return min(self.brokers, 3)

    @property
    def in_sync_min(self) -> int:
        """`min.insync.replicas`: allows one broker away, or none."""
        return self.replicas if self.is_all_in_sync else max(self.replicas - 1, 1)


def draw(seed: int) -> RunPlan:
    chance = Random(f"{seed}/plan")
    engine = chance.choices(list(EngineKind), (3, 2))[0]
    brokers = chance.choices((1, 2, 3), (2, 1, 4))[0]
    is_job = engine is EngineKind.JOB
    cells = chance.choice((1, 1, brokers)) if is_job else 1
    wider = Random(f"{seed}/wider")
    protocol = Random(f"{seed}/protocol")
    is_small = brokers > 1 and Random(f"{seed}/fetches").random() < SMALL_FETCHES
    plan = RunPlan(
        seed=seed,
        engine=engine,
        brokers=brokers,
        cells=cells,
        partitions=chance.randint(1, 3),
        is_any_order=not is_job and chance.random() < 0.5,
        clients=tuple(_with_application(_clients(chance), seed)),
        injections=tuple(_with_operator(_injections(chance, is_job, brokers), seed, brokers)),
        away_max=2 if brokers > 2 and wider.random() < TWO_AWAY else 1,
        is_all_in_sync=wider.random() < ALL_IN_SYNC,
        transaction_version=1 if protocol.random() < BEFORE_KIP_890 else 2,
        follower_bytes=SMALL_FETCH_BYTES if is_small else FETCH_BYTES,
        lag_ms=SHORT_LAG_MS if Random(f"{seed}/lag").random() < SHORT_LAGS else LAG_MS,
    )
    if plan.transaction_version == 1 and Random(f"{seed}/unverified").random() < UNVERIFIED:
        plan = msgspec.structs.replace(plan, verifies=False)
    plan = _administered(plan, Random(f"{seed}/admin"))
    plan = _denied(plan, Random(f"{seed}/acls"))
    plan = _with_disks(plan, Random(f"{seed}/disks"))
    plan = _shared(plan, Random(f"{seed}/share"))
    plan = _mixed(plan, Random(f"{seed}/mixed"))
    return _denied_else(plan, Random(f"{seed}/other acls"))


def _administered(plan: RunPlan, chance: Random) -> RunPlan:
    """Add an administrator's changes in some runs without an application."""
    if plan.application is not None or chance.random() >= ADMINISTERED:
        return plan
    count = chance.randint(1, CHANGES_MAX)
    return _with(plan, *(_injection(chance, OF_ADMINS) for _ in range(count)))


def _injection(chance: Random, faults: Sequence[FaultKind]) -> Injection:
    """Draw an injection that lasts a second or more; a fault alone is not drawn."""
    at_ms = chance.randrange(1_000, ACTIVE_MS - 2_000)
    fault = chance.choice(faults) if len(faults) > 1 else faults[0]
    return Injection(at_ms, fault, chance.random(), chance.randint(1_000, LONGEST_MS))


def _denied(plan: RunPlan, chance: Random) -> RunPlan:
    """Add an authorizer, a user for each client, and a temporary ACL in few runs."""
    if chance.random() >= DENIED:
        return plan
    at_ms = chance.randrange(1_000, ACTIVE_MS // 2)
    lasts_ms = chance.randint(1_000, LONGEST_MS)
    return _with(plan, Injection(at_ms, FaultKind.DENY, chance.random(), lasts_ms))


def _with_disks(plan: RunPlan, chance: Random) -> RunPlan:
    """Add two log directories for each broker, which sometimes fail, in few runs."""
    if plan.brokers == 1 or chance.random() >= DISKS:
        return plan
    count = chance.randint(1, DISKS_MAX)
    return _with(plan, *(_injection(chance, [FaultKind.DISK]) for _ in range(count)))


def _denied_else(plan: RunPlan, chance: Random) -> RunPlan:
    """Add an ACL that denies something else than writing, in some runs without applications."""
    if chance.random() >= DENIED_ELSE or plan.has(FaultKind.DENY) or plan.application is not None:
        return plan
    kinds = OF_DENIALS if any(c.name == DENIED_ID for c in plan.clients) else OF_DENIALS[:2]
    at_ms, lasts_ms = chance.randrange(1_000, ACTIVE_MS // 2), chance.randint(2_500, LONGEST_MS)
    return _with(plan, Injection(at_ms, chance.choice(kinds), chance.random(), lasts_ms))


def _with(plan: RunPlan, *injections: Injection) -> RunPlan:
    found = sorted(plan.injections + injections, key=lambda each: each.at_ms)
    return msgspec.structs.replace(plan, injections=tuple(found))


def _shared(plan: RunPlan, chance: Random) -> RunPlan:
    """Replace copiers by a share group in some runs; in half of them without moved leaders."""
    if chance.random() >= SHARES:
        return plan
    is_committed = chance.random() < 0.5
    members = tuple(
        ClientPlan(f"sharer-{number}", Role.SHARER, "parcels", is_committed)
        for number in range(1, chance.randint(2, 3) + 1)
    )
    others = tuple(each for each in plan.clients if each.role is not Role.COPIER)
    is_steady = chance.random() < 0.5
    moves_leaders = OF_BROKERS.union(OF_OPERATORS)
    injections = tuple(
        each for each in plan.injections if not (is_steady and each.fault in moves_leaders)
    )
    return msgspec.structs.replace(plan, clients=others + members, injections=injections)


def _mixed(plan: RunPlan, chance: Random) -> RunPlan:
    """Replace copiers by members that commit offsets by turns, in some runs."""
    has_shares = any(each.role is Role.SHARER for each in plan.clients)
    if chance.random() >= MIXED or has_shares or plan.application is not None:
        return plan
    others = tuple(each for each in plan.clients if each.role is not Role.COPIER)
    mixed = tuple(
        ClientPlan(f"mixed-{number}", Role.MIXED, "ledger", True)
        for number in range(1, chance.randint(1, 2) + 1)
    )
    return msgspec.structs.replace(plan, clients=others + mixed)


def _clients(chance: Random) -> list[ClientPlan]:
    clients = [ClientPlan("producer-1", Role.PRODUCER)]
    if chance.random() < 0.6:
        clients.append(ClientPlan("orders-tx", Role.TRANSACTIONS))
    role = chance.choice((Role.CLASSIC, Role.CONSUMER))
    is_committed = chance.random() < 0.6
    clients += [
        ClientPlan(f"member-{number}", role, "billing", is_committed)
        for number in range(1, chance.randint(1, 3) + 1)
    ]
    if chance.random() < 0.4:
        clients += [
            ClientPlan(f"copier-{number}", Role.COPIER, "copy", True)
            for number in range(1, chance.randint(1, 2) + 1)
        ]
    return clients


def _with_application(clients: list[ClientPlan], seed: int) -> list[ClientPlan]:
    """Replace most group members by an application for some seeds."""
    role = APPLICATIONS.get(seed % APPLICATION_EVERY)
    if role is None:
        return clients
    name = "worker" if role in WORKERS else "thread"
    count = Random(f"{seed}/application").randint(2, 3)
    kept = [each for each in clients if each.role is not Role.COPIER]
    return [
        *(each for each in kept if not each.group or each.name.endswith("-1")),
        *(ClientPlan(f"{name}-{number}", role) for number in range(1, count + 1)),
    ]


def _injections(chance: Random, is_job: bool, brokers: int) -> list[Injection]:
    weights = {
        fault: weight
        for fault, weight in WEIGHTS.items()
        if (is_job or fault not in OF_JOBS) and (brokers > 1 or fault not in OF_SEVERAL)
    }
    injections = []
    for _ in range(chance.randint(INJECTIONS_MIN, INJECTIONS_MAX)):
        lasts = int(SHORTEST_MS * (LONGEST_MS / SHORTEST_MS) ** chance.random())
        fault = chance.choices(list(weights), list(weights.values()))[0]
        lasts *= 2 if fault in OUTLIVES_SESSIONS else 1
        injections.append(
            Injection(chance.randrange(200, ACTIVE_MS), fault, chance.random(), lasts)
        )
    return sorted(injections, key=lambda each: each.at_ms)


def _with_operator(injections: list[Injection], seed: int, brokers: int) -> list[Injection]:
    """Add an operator in some runs with several brokers."""
    chance = Random(f"{seed}/operator")
    if brokers == 1 or chance.random() >= OPERATED:
        return injections
    added = [
        Injection(chance.randrange(500, ACTIVE_MS), chance.choice(OF_OPERATORS), chance.random(), 0)
        for _ in range(chance.randint(1, OPERATED_MAX))
    ]
    return sorted([*injections, *added], key=lambda each: each.at_ms)


def pick(among: Sequence[Choice], whom: float) -> Choice | None:
    """Return the element that a number in [0, 1) selects, or None."""
    return among[int(whom * len(among))] if among else None
