"""Tolerances for the times of a schedule.

Kafka delays the response to some requests: Fetch, ShareFetch, JoinGroup, SyncGroup, and with
several brokers also those that wait for replicas (Produce with acks -1, OffsetCommit,
TxnOffsetCommit). A model that waits too little often returns the same response, only earlier. Times
are therefore compared too. `Tolerances` covers the time that a real broker and the recorder need
themselves.
"""

from collections.abc import Sequence
from typing import NamedTuple

from brokertwin.protocol.kafka_apis import METADATA, PRODUCE, Trait
from brokertwin.recordings.replay.recording import Exchange

SECOND_MS = 1000


class Tolerances(NamedTuple):
    """Tolerances in ms.

    Attributes:
        early: how early a delayed request may complete before its recorded end.
        moved: how late a request may be handled after its arrival or after it was queued; and how
            early a deadline may pass or a wait be held before the recorded end.
        retried: how late a request that can wait may be handled after its arrival.
        late: how late metadata changes or markers may follow a response.
        opened: how late a broker may open the log of a new partition.
    """

    early: int = 100
    moved: int = 50
    retried: int = 25
    late: int = 150
    opened: int = 1000

    def scaled(self, factor: float) -> "Tolerances":
        return Tolerances(*(round(value * factor) for value in self))

    def at_resolution(self, resolution_ms: int) -> "Tolerances":
        return Tolerances(*(value + resolution_ms - 1 for value in self))


TOLERANCES = Tolerances()


def resolution_ms(exchanges: Sequence[Exchange]) -> int:
    """Resolution of the recorded times: 1000 for whole seconds, else 1 ms."""
    times = [time for exchange in exchanges for time in (exchange.time, exchange.end)]
    return SECOND_MS if all(time % SECOND_MS == 0 for time in times) else 1


def has_replicas(exchanges: Sequence[Exchange]) -> bool:
    """Whether the recorded cluster has several brokers."""
    if len({exchange.broker for exchange in exchanges}) > 1:
        return True
    responses = (e.response for e in exchanges if e.header.request_api_key == METADATA.key)
    return any(isinstance(each, dict) and len(each.get("brokers", ())) > 1 for each in responses)


def may_wait(exchange: Exchange, is_replicated: bool) -> bool:
    """Whether the broker may have delayed the request.

    `is_replicated`: partitions may have replicas (`has_replicas`).
    """
    key = exchange.header.request_api_key
    if exchange.has(Trait.MAY_WAIT):
        return True
    is_produce = key == PRODUCE.key and exchange.body().get("acks") == -1
    return is_replicated and (is_produce or exchange.has(Trait.COMMITS_OFFSETS))


def slowest_ms(exchanges: Sequence[Exchange]) -> int:
    """Longest response time of requests that never wait; 0 without any."""
    is_replicated = has_replicas(exchanges)
    plain = (e for e in exchanges if e.is_recorded and not may_wait(e, is_replicated))
    return max((each.end - each.time for each in plain), default=0)


class ExchangeTimes:
    """The permitted times of an exchange.

    Args:
        exchange: the request and its recorded end.
        previous: the previous request of its connection, which it was queued after.
        tolerances: tolerances for times.
        is_replicated: partitions may have replicas.
    """

    def __init__(
        self,
        exchange: Exchange,
        previous: Exchange | None,
        tolerances: Tolerances,
        is_replicated: bool = False,
    ) -> None:
        waits = may_wait(exchange, is_replicated)
        start = exchange.time if previous is None else max(exchange.time, previous.end)
        self.latest_start = start + (tolerances.retried if waits else tolerances.moved)
        self._is_timed = waits and exchange.is_recorded
        self._early = tolerances.early
        self._moved = tolerances.moved
        self._end = exchange.end

    def is_too_early(self, time: int, is_expired: bool) -> bool:
        """Whether a response at `time` is long before the recorded one.

        Args:
            time: of the response, in ms since 1970.
            is_expired: the deadline of its wait had passed.
        """
        return self._is_timed and self._end - time > (self._moved if is_expired else self._early)

    def may_hold(self, since: int) -> bool:
        """Whether a wait that could end at `since` may end at its recorded end."""
        return self._end - since <= self._moved
