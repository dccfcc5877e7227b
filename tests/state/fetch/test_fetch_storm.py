"""More clients than session slots, one after the other."""

from collections import Counter

from brokertwin.state.core.tables import Table
from brokertwin.state.fetch import check
from brokertwin.state.fetch.fetch_session import (
    EVICTION_MS,
    FetchPartition,
    NewSession,
    SessionCache,
    SessionResponse,
)
from brokertwin.state.fetch.fetch_session_counts import cache_counts
from brokertwin.state.fetch.shards import SHARDS, ShardLayout

BROKER, VERSION = 1, 12
SLOTS, CLIENTS = 5 * SHARDS, 50 * SHARDS
FOLLOWERS = 2


class Storm:
    """Clients that open a session of one partition and stop; followers that continue."""

    def __init__(self, slots: int) -> None:
        self.table = Table()
        self.layout = ShardLayout(slots)
        self.opened: Counter[bool] = Counter()
        """Numbers of clients with and without a session."""
        self.followers: dict[int, int] = {}
        for number in range(FOLLOWERS):
            self.followers[self.open(0, f"follower-{number}", is_follower=True)] = 1

    def open(self, now: int, client: str, *, is_follower: bool = False) -> int:
        partition = FetchPartition("t", "t", 0, 0, 1000, -1, -1, -1)
        responses = [SessionResponse(partition.identity, partition, 0, 0, 0, 0, False, True)]
        cache = SessionCache(self.table, BROKER, self.layout, now)
        result = cache.create(NewSession(client, is_follower, False, client, None), responses)
        self.opened[result > 0] += 1
        return result

    def rage(self, clients: int, every_ms: int) -> None:
        """Let clients arrive at this interval while followers fetch."""
        for number in range(clients):
            now = (number + 1) * every_ms
            self.open(now, f"client-{number}")
            for session_id, epoch in self.followers.items():
                cache = SessionCache(self.table, BROKER, self.layout, now)
                assert cache.open(session_id, epoch, VERSION, {}, []).error == 0
                self.followers[session_id] += 1


def test_surplus_clients_have_no_session_while_all_sessions_are_young() -> None:
    storm = Storm(SLOTS)
    storm.rage(CLIENTS, 1)
    counts = cache_counts(storm.table, [BROKER])
    assert (counts.sessions, counts.evictions) == (SLOTS, 0)
    assert storm.opened == {True: SLOTS, False: CLIENTS + FOLLOWERS - SLOTS}


def test_idle_sessions_are_evicted_after_two_minutes_and_followers_stay() -> None:
    storm = Storm(SLOTS)
    storm.rage(CLIENTS, EVICTION_MS * 2 // SLOTS)
    counts = cache_counts(storm.table, [BROKER])
    assert counts.sessions == SLOTS
    assert counts.evictions == storm.opened[True] - SLOTS > SLOTS
    assert list(check.check(storm.table, [BROKER], storm.layout)) == []
    assert set(storm.followers.values()) == {CLIENTS + 1}, "each fetch was in its session"
