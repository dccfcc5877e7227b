"""Counts of the fetch session cache equal its content."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.fetch_session import (
    EVICTION_MS,
    NewSession,
    SessionCache,
    SessionResponse,
)
from brokertwin.state.fetch.fetch_session_counts import (
    CLIENTS_MAX,
    OTHERS,
    CacheCounts,
    Evictions,
    cache_counts,
    count_eviction,
)
from brokertwin.state.fetch.session_items import FetchPartition, FetchSession
from brokertwin.state.fetch.shards import SHARDS, ShardLayout

BROKER = 1
SLOTS_OF_SHARD = 2
CLIENTS = ("app", "report")
PARTITIONS = 4


def requested(partition: int) -> FetchPartition:
    return FetchPartition(ZERO_UUID, "orders", partition, 0, 1000, -1, -1, -1)


def response_of(partition: FetchPartition) -> SessionResponse:
    return SessionResponse(partition.identity, partition, 0, 0, 0, 0, False, True)


class Use:
    """A cache that is used at random; each use advances the time."""

    def __init__(self) -> None:
        self.table = Table()
        self.now = 0

    def cache(self) -> SessionCache:
        return SessionCache(self.table, BROKER, ShardLayout(SLOTS_OF_SHARD * SHARDS), self.now)

    def sessions(self) -> list[FetchSession]:
        prefix = f"{BROKER}/session/"
        return [session for _, session in self.table.items(prefix, FetchSession)]

    def create(self, client: str, size: int) -> None:
        partitions = [requested(number) for number in range(size)]
        taken = {session.session_id for session in self.sessions()}
        free = next(number for number in range(1, 10) if number not in taken)
        new = NewSession(client, False, False, "nonce", free)
        self.cache().create(new, [response_of(partition) for partition in partitions])

    def send(self, place: int, named: int, forgotten: int) -> None:
        """Send an incremental request; forgetting all partitions closes the session."""
        sessions = self.sessions()
        if sessions:
            session = sessions[place % len(sessions)]
            gone = [requested(number).identity for number in range(forgotten)]
            self.cache().open(
                session.session_id,
                session.epoch,
                12,
                {requested(named).identity: requested(named)},
                gone,
            )

    def close(self, place: int) -> None:
        sessions = self.sessions()
        if sessions:
            self.cache().open(sessions[place % len(sessions)].session_id, -1, 12, {}, [])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(CLIENTS), st.integers(1, PARTITIONS)),
        st.tuples(
            st.just("send"),
            st.integers(0, 5),
            st.integers(0, PARTITIONS - 1),
            st.integers(0, PARTITIONS),
        ),
        st.tuples(st.just("close"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([1, EVICTION_MS + 1])),
    ),
    max_size=30,
)


@given(STEPS)
def test_counts_equal_the_sessions(steps: list[tuple[str, int | str]]) -> None:
    use = Use()
    for name, *arguments in steps:
        if name == "wait":
            use.now += int(arguments[0])
        else:
            getattr(use, name)(*arguments)
        sessions = use.sessions()
        evictions = use.table.get(f"{BROKER}/evictions", Evictions) or Evictions({}, {})
        assert cache_counts(use.table, [BROKER]) == CacheCounts(
            len(sessions),
            sum(session.cached_size for session in sessions),
            sum(evictions.evicted.values()),
        )
        assert sum(evictions.evicted.values()) == sum(evictions.evicting.values())


def test_eviction_counts_for_both_clients() -> None:
    use = Use()
    for _ in range(SLOTS_OF_SHARD):
        use.create("app", 3)
    use.now = EVICTION_MS + 1
    use.create("report", 4)
    assert cache_counts(use.table, [BROKER]) == CacheCounts(2, 3 + 4, 1)
    assert use.table.get(f"{BROKER}/evictions", Evictions) == Evictions({"app": 1}, {"report": 1})


def test_client_ids_beyond_the_limit_are_counted_together() -> None:
    table = Table()
    for number in range(CLIENTS_MAX + 2):
        count_eviction(table, BROKER, "app", f"new-{number}")
    counted = table.get(f"{BROKER}/evictions", Evictions)
    assert counted is not None
    assert counted.evicted == {"app": CLIENTS_MAX + 2}
    assert counted.evicting[OTHERS] == 2
    assert len(counted.evicting) == CLIENTS_MAX + 1
