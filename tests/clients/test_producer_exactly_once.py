"""A producer and a broker over a network that loses, repeats, delays and reorders.

For every schedule: an acknowledged record is in its log exactly once, in send order, at its
acknowledged offset; every record completes once; a certainly failed record is not in the log.
Without rejections and expired batches nothing fails. The same check finds the violation if the
producer is not idempotent, has more than five requests in flight, or renumbers batches of unknown
outcome. Eight in flight are safe with a broker that has the seed's closing scheme (a sequence below
the next expected one is a duplicate) if it rejects a producer that starts in the middle; otherwise
acknowledged records may be lost.

For transactional producers before and since KIP-890: committed reads return the committed records
in order and no others; a group's offset is the last committed one; no transaction stays open. With
late coordinator requests from closed connections this holds only since KIP-890.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from brokertwin.clients.producer_config import ProducerConfig
from tests.support.examples import examples
from tests.support.network import FAULTS, Network, Schedule, Step
from tests.support.transactional_network import TransactionalNetwork

FOREVER = 2**31 - 1

FAULTLESS = [*[Step.SEND] * 4, *[Step.REQUEST] * 4, *[Step.RESPONSE] * 3, *[Step.WAIT] * 2]
FAULTY = [*FAULTLESS, Step.CUT, Step.LATE, Step.REPEAT]
CROWDED = [*[Step.SEND] * 6, *[Step.REQUEST] * 6, Step.RESPONSE, Step.WAIT, Step.CUT, Step.LATE]
REFUSING = [*FAULTY, *[Step.WAIT] * 2, Step.REFUSE]

LOSSY = settings(
    max_examples=examples(18),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def schedules(steps: list[Step], least: int = 40, most: int = 120) -> st.SearchStrategy[Schedule]:
    """Two bytes for each step: quick to draw, and they shrink."""

    def read(drawn: bytes) -> Schedule:
        return [(steps[a % len(steps)], b) for a, b in zip(drawn[::2], drawn[1::2], strict=False)]

    return st.binary(min_size=2 * least, max_size=2 * most).map(read)


class World:
    """A kind of producer and environment, and the faults so far."""

    def __init__(self, steps: list[Step], kind: type[Network] = Network, **network: object) -> None:
        config = network.pop("config", {})
        assert isinstance(config, dict)
        self.steps = steps
        self.kind = kind
        self.config = ProducerConfig(**{"linger_ms": 0, **config})
        self.network = network
        self.happened: Counter[str] = Counter()

    def run(self, schedule: Schedule) -> list[str]:
        net = self.kind(self.config, **self.network)  # type: ignore[arg-type]
        net.play(schedule)
        net.settle()
        self.happened += net.injected
        self.happened += Counter(
            runs=1, acknowledged=len(net.acked), failed=len(net.failed), sent=len(net.sent)
        )
        return net.violations()

    def report(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.happened.items()))

    @property
    def kinds(self) -> list[str]:
        fields = {
            Step.REFUSE: ("refusals", "expiries"),
            Step.COMMIT: ("commits", "aborts"),
            Step.LEVEL: ("levels",),
        }
        return [*FAULTS, *(kind for step in fields if step in self.steps for kind in fields[step])]


def transactions(level: int, *steps: Step, **network: object) -> World:
    """Producers of transactions in a cluster that has finalized this level."""
    known = {"linger_ms": 0, "delivery_timeout_ms": FOREVER, "transactional_id": "t"}
    config = network.pop("config", {})
    assert isinstance(config, dict)
    faulty = [*FAULTY, *[Step.REQUEST, Step.RESPONSE] * 3, *[Step.COMMIT] * 2, Step.ABORT]
    return World(
        [*faulty, Step.OFFSETS, *steps],
        TransactionalNetwork,
        level=level,
        config={**known, "transaction_timeout_ms": 900_000, **config},
        **network,
    )


NEVER_TOO_OLD = {"delivery_timeout_ms": FOREVER}
A_MINUTE = {"delivery_timeout_ms": 60_000}
EIGHT = {"max_in_flight_requests_per_connection": 8, "is_unsafe": True}
SIX = {"max_in_flight_requests_per_connection": 6, "is_unsafe": True}
SIZES = {"sizes": (50, 200, 300, 700), "max_message_bytes": 600}

SEEDS_SCHEME = {"brokertwin_duplicates_below_expected": True}
WITHOUT_HOLES = {**SEEDS_SCHEME, "brokertwin_reject_unknown_producer": True}

REFUSED = [*[Step.WAIT] * 2, *[Step.REFUSE] * 2]
TEN_SECONDS = {"transaction_timeout_ms": 10_000}
NO_VERIFICATION = {"transaction_partition_verification_enable": False}

KEPT = {
    "nothing grows too old": World(FAULTY, config=NEVER_TOO_OLD),
    "many in flight": World(CROWDED, config=NEVER_TOO_OLD),
    "batches expire and are refused": World(REFUSING, config=A_MINUTE),
    "no order within a connection": World(REFUSING, config=A_MINUTE, is_shuffled=True),
    "one in flight": World(
        REFUSING, config={**A_MINUTE, "max_in_flight_requests_per_connection": 1}
    ),
    "batches are split": World(REFUSING, config={**A_MINUTE, "linger_ms": 100}, **SIZES),
    "few retries": World(REFUSING, config={**A_MINUTE, "retries": 2}),
    "eight in flight, what lies below is a duplicate": World(
        CROWDED, config={**NEVER_TOO_OLD, **EIGHT}, broker=WITHOUT_HOLES
    ),
    "the same when batches expire and are refused": World(
        REFUSING, config={**A_MINUTE, **EIGHT}, broker=WITHOUT_HOLES
    ),
    "transactions before KIP-890": transactions(1, is_late=False),
    "transactions as of KIP-890": transactions(2),
    "transactions before KIP-890 when batches expire and are refused": transactions(
        1, *REFUSED, config=A_MINUTE, is_late=False
    ),
    "transactions as of KIP-890 when batches expire and are refused": transactions(
        2, *REFUSED, config=A_MINUTE
    ),
    "transactions before KIP-890 that last too long": transactions(
        1, Step.WAIT, config=TEN_SECONDS, is_late=False
    ),
    "transactions as of KIP-890 that last too long": transactions(2, Step.WAIT, config=TEN_SECONDS),
    "transactions while the cluster changes its protocol": transactions(
        1, Step.LEVEL, Step.CUT, is_late=False
    ),
}

BROKEN = {
    "not idempotent": World(FAULTY, config={**NEVER_TOO_OLD, "enable_idempotence": False}),
    "eight in flight": World(CROWDED, config={**NEVER_TOO_OLD, **EIGHT}),
    "eight in flight, renumbering as Kafka does": World(
        CROWDED, config={**NEVER_TOO_OLD, **EIGHT, "rewrites_unacknowledged": True}
    ),
    "what lies below is a duplicate, but a producer may begin anywhere": World(
        REFUSING, config=A_MINUTE, broker=SEEDS_SCHEME
    ),
    "renumbering as Kafka does when batches expire": World(
        REFUSING, config={**A_MINUTE, "rewrites_unacknowledged": True}
    ),
    "transactions that end before their records have": transactions(2, is_hasty=True),
    "transactions before KIP-890 of brokers that do not ask the coordinator": transactions(
        1, *[Step.CUT, Step.LATE] * 2, broker=NO_VERIFICATION, is_late=False
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", KEPT)
def test_acknowledged_records_are_in_the_log_once_and_in_order(
    name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    world = KEPT[name]

    @LOSSY
    @given(schedules(world.steps))
    def for_any_schedule(schedule: Schedule) -> None:
        assert world.run(schedule) == []

    for_any_schedule()
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    with capsys.disabled():
        reporter.write_line(f"{name}: {world.report()}")
    assert [kind for kind in world.kinds if world.happened[kind] == 0] == []
    assert world.happened["acknowledged"] + world.happened["failed"] == world.happened["sent"]


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_the_same_check_detects_planted_bugs(name: str) -> None:
    world = BROKEN[name]
    schedule = find(
        schedules(world.steps),
        lambda schedule: world.run(schedule) != [],
        settings=settings(LOSSY, max_examples=20_000, phases=[Phase.generate]),
    )
    assert world.run(schedule) != []


GETS_ITS_ID = [(Step.REQUEST, 0), (Step.RESPONSE, 0), (Step.WAIT, 2)] * 2
"""A fresh broker gives an id to the second request."""

UNANSWERED = [
    *GETS_ITS_ID,
    *[(Step.SEND, 0)] * 6,
    *[(Step.REQUEST, 0)] * 6,
    (Step.CUT, 0),
    (Step.CUT, 1),
    (Step.WAIT, 3),
]
"""Six records are sent and written one by one; of the responses none arrives."""

WRITTEN_BEHIND_A_REFUSAL = [
    *GETS_ITS_ID,
    *[(Step.SEND, 0)] * 2,
    (Step.REFUSE, 0),
    (Step.REQUEST, 0),
    (Step.RESPONSE, 0),
    (Step.CUT, 0),
    (Step.CUT, 1),
]
"""The first record is refused for a moment, the second written: a producer may begin anywhere. That
answer is lost."""

OVERTAKEN = [
    *GETS_ITS_ID,
    *[(Step.SEND, 0)] * 2,
    (Step.SEND, 2),
    (Step.REFUSE, 0),
    *[(Step.REQUEST, 0)] * 2,
    *[(Step.RESPONSE, 0)] * 3,
]
"""The first record is refused, the second written and acknowledged, the third too large."""


def test_six_in_flight_exceed_the_brokers_five_batches() -> None:
    five = World([], config=NEVER_TOO_OLD)
    six = World([], config={**NEVER_TOO_OLD, **SIX})
    as_kafka = World([], config={**NEVER_TOO_OLD, **SIX, "rewrites_unacknowledged": True})
    assert five.run(UNANSWERED) == []
    assert six.run(UNANSWERED) == [
        "nothing expired or was refused, but these failed: [1, 2, 3, 4, 5, 6]"
    ]
    assert as_kafka.run(UNANSWERED) == [
        f"record {record} is 2 times in the log of 0" for record in range(1, 7)
    ]


@pytest.mark.parametrize(
    ("schedule", "violation"),
    [
        (WRITTEN_BEHIND_A_REFUSAL, "record 2 is 2 times in the log of 0"),
        (OVERTAKEN, "partition 0 is out of order: [2, 1, 4]"),
    ],
)
def test_kafkas_rule_loses_records_by_renumbering_at_once(
    schedule: Schedule, violation: str
) -> None:
    sizes = {"sizes": (50, 900), "max_message_bytes": 600}
    as_kafka = World([], config={**NEVER_TOO_OLD, "rewrites_unacknowledged": True}, **sizes)
    assert as_kafka.run(schedule) == [violation]
    ours = World([], config=NEVER_TOO_OLD, **sizes)
    assert ours.run(schedule) == []
    assert ours.happened["failed"] >= 1


def test_without_faults_nothing_fails_and_nothing_is_repeated() -> None:
    world = World(FAULTLESS, config=NEVER_TOO_OLD)

    @settings(LOSSY, max_examples=examples(20))
    @given(schedules([step for step in FAULTLESS if step is not Step.WAIT]))
    def for_any_schedule(schedule: Schedule) -> None:
        assert world.run(schedule) == []

    for_any_schedule()
    assert world.happened["failed"] == world.happened["repeats"] == 0


def turns(count: int) -> Schedule:
    """Handle a request and its response `count` times."""
    return [(Step.REQUEST, 0), (Step.RESPONSE, 0)] * count


LATE_END = [
    (Step.SEND, 0),
    *turns(3),
    (Step.COMMIT, 0),
    (Step.CUT, 2),
    (Step.WAIT, 3),
    *turns(4),
    (Step.SEND, 0),
    *turns(3),
    (Step.LATE, 0),
    (Step.ABORT, 0),
]
"""A transaction is committed at the second try; the first one comes when the next is open, which is
aborted."""


def test_a_late_request_ends_the_next_transaction_only_before_kip_890() -> None:
    assert transactions(1).run(LATE_END) == ["0 shows [1, 2], and [1] were committed"]
    assert transactions(1, is_late=False).run(LATE_END) == []
    as_of_kip_890 = transactions(2)
    assert as_of_kip_890.run(LATE_END) == []
    assert (as_of_kip_890.happened["commits"], as_of_kip_890.happened["aborts"]) == (2, 1)
