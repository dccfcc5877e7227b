"""The fetch session cache; numbers are those of the worked examples (KIP-227)."""

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.fetch_session import (
    EVICTION_MS,
    ContextKind,
    FetchContext,
    NewSession,
    SessionCache,
    SessionResponse,
    next_epoch,
)
from brokertwin.state.fetch.fetch_session_counts import cache_counts
from brokertwin.state.fetch.session_items import FetchPartition, FetchSession
from brokertwin.state.fetch.shards import SHARDS, ShardLayout

BROKER = 1
TODAY = ShardLayout(1000)
V12 = 12
V17 = 17


def requested(name: str, offset: int = 0, topic_id: str = ZERO_UUID) -> FetchPartition:
    topic, partition = name.rsplit("-", 1)
    return FetchPartition(topic_id, topic, int(partition), offset, 1000, -1, -1, -1)


def response_of(
    partition: FetchPartition, high_watermark: int, size: int = 0, error: int = 0, start: int = 0
) -> SessionResponse:
    offsets = (high_watermark, start)
    return SessionResponse(partition.identity, partition, error, *offsets, size, False, size == 0)


class Broker:
    """A cache with a test clock."""

    def __init__(self, slots: int = 8000) -> None:
        self.table = Table()
        self.slots = slots
        self.nonce = 0

    def at(self, now: int) -> SessionCache:
        return SessionCache(self.table, BROKER, ShardLayout(self.slots), now)

    def create(
        self, now: int, size: int, is_privileged: bool = False, chosen: int | None = None
    ) -> int:
        partitions = [requested(f"t-{number}") for number in range(size)]
        return self.create_over(now, partitions, 0, is_privileged, chosen)

    def create_over(
        self,
        now: int,
        partitions: list[FetchPartition],
        high_watermark: int = 0,
        is_privileged: bool = False,
        chosen: int | None = None,
        uses_topic_ids: bool = False,
    ) -> int:
        self.nonce += 1
        new = NewSession("client", is_privileged, uses_topic_ids, str(self.nonce), chosen)
        responses = [response_of(partition, high_watermark) for partition in partitions]
        return self.at(now).create(new, responses)

    def incremental(
        self,
        session_id: int,
        epoch: int,
        partitions: list[FetchPartition] | None = None,
        forgotten: list[str] | None = None,
        version: int = V12,
        now: int = 0,
    ) -> FetchContext:
        named = {partition.identity: partition for partition in partitions or []}
        return self.at(now).open(session_id, epoch, version, named, forgotten or [])

    def session(self, session_id: int) -> FetchSession:
        session = self.at(0).session(session_id)
        assert session is not None
        return session

    def shown(self, context: FetchContext, responses: list[SessionResponse]) -> list[bool] | None:
        return self.at(0).select(context, responses)

    def order(self, session_id: int) -> list[str]:
        return [cached.requested.identity for cached in self.at(0).partitions(session_id)]


FOO_0, FOO_1 = requested("foo-0", 0), requested("foo-1", 10)


def test_example_1_idle_session_shows_nothing() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0, FOO_1])
    assert session_id > 0
    assert broker.session(session_id).epoch == 1
    context = broker.incremental(session_id, 1)
    assert context.kind is ContextKind.INCREMENTAL
    assert broker.shown(context, [response_of(FOO_0, 0), response_of(FOO_1, 0)]) == [False, False]
    assert broker.session(session_id).epoch == 2


def test_example_2_repeated_epoch_is_invalid_and_keeps_the_session() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0])
    broker.incremental(session_id, 1)
    context = broker.incremental(session_id, 1)
    assert (context.kind, context.error) == (
        ContextKind.ERROR,
        Error.INVALID_FETCH_SESSION_EPOCH,
    )
    assert context.session_id == 0
    assert broker.session(session_id).epoch == 2


def test_example_3_unknown_session_is_not_found() -> None:
    assert Broker().incremental(4711, 1).error == Error.FETCH_SESSION_ID_NOT_FOUND


def test_example_4_greatest_epoch_wraps_to_1() -> None:
    assert next_epoch(2_147_483_646) == 2_147_483_647
    assert next_epoch(2_147_483_647) == 1, "an epoch is an int32"
    assert next_epoch(0) == 1
    assert next_epoch(-1) == -1


def one_shard(size: int) -> Broker:
    """A broker with shards of `size` slots; all sessions go to the first shard."""
    return Broker(slots=size * SHARDS)


def test_example_5_least_recently_used_session_is_evicted_first() -> None:
    broker = one_shard(3)
    age = EVICTION_MS // 100  # the example's limit is 100 ms
    a = broker.create(0, 10, chosen=1)
    b = broker.create(10 * age, 20, chosen=2)
    c = broker.create(20 * age, 30, chosen=3)
    assert [a, b, c] == [1, 2, 3]
    assert broker.create(30 * age, 40, chosen=4) == 0
    assert broker.create(40 * age, 5, chosen=4) == 0
    broker.at(200 * age).touch(a)
    assert broker.create(210 * age, 11, chosen=4) == 4
    assert [i for i in (1, 2, 3, 4) if broker.at(0).session(i)] == [1, 3, 4]


def test_example_6_smallest_old_session_is_evicted_and_any_consumer_by_a_follower() -> None:
    broker = one_shard(3)
    age = EVICTION_MS // 100
    for now, size, chosen in ((0, 10, 1), (20, 30, 3), (210, 11, 4)):
        broker.create(now * age, size, chosen=chosen)
    for session_id, now in ((1, 400), (3, 390), (4, 400)):
        broker.at(now * age).touch(session_id)
    assert broker.create(410 * age, 50, chosen=5) == 5
    assert broker.at(0).session(1) is None
    assert broker.create(410 * age, 5, chosen=6) == 0
    assert broker.create(410 * age, 5, is_privileged=True, chosen=6) == 6
    assert broker.at(0).session(4) is None


def test_example_7_stale_follower_is_evicted() -> None:
    broker = one_shard(2)
    age = EVICTION_MS // 1000
    broker.create(0, 1, is_privileged=True, chosen=1)
    broker.create(500 * age, 1, chosen=2)
    assert broker.create(1000 * age, 1, is_privileged=True, chosen=3) == 3
    assert broker.at(0).session(2) is None
    assert broker.create(1501 * age, 1, is_privileged=True, chosen=4) == 4
    assert broker.at(0).session(1) is None


def test_example_8_kafka_9137_use_protects_a_session() -> None:
    """Kafka once did not note the use of a session, and evicted live ones."""
    broker = one_shard(2)
    age = EVICTION_MS // 1000
    broker.create(0, 1, chosen=1)
    broker.create(500 * age, 1, chosen=2)
    broker.incremental(1, 1, now=1000 * age)
    assert broker.create(1501 * age, 1, chosen=3) == 3
    assert broker.at(0).session(2) is None


def test_example_9_size_counts_from_the_last_touch() -> None:
    broker = one_shard(2)
    age = EVICTION_MS // 100  # the example's limit is 100 ms

    def counted() -> tuple[int, int]:
        counts = cache_counts(broker.table, [BROKER])
        return counts.partitions_cached, counts.evictions

    for size, session_id in ((2, 1), (4, 2)):
        assert broker.create(0, size, chosen=session_id) == session_id
    assert counted() == (6, 0)
    for session_id in (1, 2):
        broker.at(200 * age).touch(session_id)
    assert broker.create(200 * age, 5, chosen=3) == 3
    assert broker.at(0).session(1) is None
    assert counted() == (9, 1)
    broker.at(200 * age).remove(3)
    assert counted() == (4, 1)
    broker.incremental(2, 1, forgotten=[requested("t-0").identity], now=200 * age)
    assert counted() == (3, 1)


def test_example_10_forgetting_everything_closes_the_session() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0, FOO_1])
    context = broker.incremental(session_id, 1, forgotten=[FOO_0.identity, FOO_1.identity])
    assert (context.kind, context.session_id) == (ContextKind.SESSIONLESS, 0)
    assert broker.at(0).session(session_id) is None
    assert broker.table.keys(f"{BROKER}/cached/") == []


def test_example_11_diverging_partition_is_shown_each_time() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0, FOO_1], high_watermark=105)
    for epoch in (1, 2, 3):
        context = broker.incremental(session_id, epoch)
        diverging = msgspec.structs.replace(response_of(FOO_1, 105), is_diverging=True)
        assert broker.shown(context, [response_of(FOO_0, 105), diverging]) == [False, True]
        assert not diverging.is_quiet
    assert response_of(FOO_1, 105).is_quiet


def test_example_12_records_move_a_partition_to_the_end() -> None:
    broker = Broker()
    tp1, tp2, tp3 = (requested(f"tp-{number}") for number in (1, 2, 3))
    session_id = broker.create_over(0, [tp1, tp2, tp3], high_watermark=50)
    quiet = [response_of(tp, 50) for tp in (tp1, tp2, tp3)]
    assert broker.shown(broker.incremental(session_id, 1), quiet) == [False] * 3
    moved = [response_of(tp1, 60), response_of(tp2, 60, size=100), response_of(tp3, 50)]
    assert broker.shown(broker.incremental(session_id, 2), moved) == [True, True, False]
    assert broker.order(session_id) == [tp1.identity, tp3.identity, tp2.identity]


def test_example_13_first_success_after_an_error_is_shown() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0], high_watermark=100)
    failed = SessionResponse(FOO_0.identity, FOO_0, 6, -1, -1, 0, False, False)
    assert broker.shown(broker.incremental(session_id, 1), [failed]) == [True]
    assert broker.shown(broker.incremental(session_id, 2), [response_of(FOO_0, 100)]) == [True]
    assert broker.shown(broker.incremental(session_id, 3), [response_of(FOO_0, 100)]) == [False]


def test_example_17_another_topic_id_is_another_partition() -> None:
    broker = Broker()
    old, new = (
        requested("foo-0", topic_id="A" * 21 + "Q"),
        requested("foo-0", topic_id="A" * 21 + "g"),
    )
    session_id = broker.create_over(0, [old], uses_topic_ids=True)
    broker.incremental(session_id, 1, [new], [old.identity], version=V17)
    assert broker.order(session_id) == [new.identity]


def test_example_20_names_in_a_session_with_ids_are_an_error_and_keep_it() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0], uses_topic_ids=True)
    context = broker.incremental(session_id, 1, version=V12)
    assert context.error == Error.FETCH_SESSION_TOPIC_ID_ERROR
    assert broker.session(session_id).epoch == 1


def test_example_21_ids_belong_to_shards() -> None:
    assert TODAY.id_range == 268435455
    assert [TODAY.shard_of(i) for i in (268435454, 268435455, 536870910)] == [0, 1, 2]
    broker = Broker()
    ids = [broker.create(0, 1) for _ in range(16)]
    assert [TODAY.shard_of(session_id) for session_id in ids] == [*range(8), *range(8)]
    assert all(session_id >= 1 for session_id in ids)


def test_example_23_superseded_response_shows_nothing() -> None:
    broker = Broker()
    session_id = broker.create_over(0, [FOO_0])
    first = broker.incremental(session_id, 1)
    broker.incremental(session_id, 2)
    assert broker.session(session_id).epoch == 3
    assert broker.shown(first, [response_of(FOO_0, 5, size=10)]) is None


def test_no_slots_no_session() -> None:
    assert Broker(slots=0).create(0, 1) == 0
