"""How far the times of a schedule may be from the recorded ones.

Kafka answers some requests only after a wait: Fetch, ShareFetch, JoinGroup, SyncGroup, and, where
there are several brokers, what has to be in the log of every replica first (Produce with acks -1,
OffsetCommit, TxnOffsetCommit; a partition's only replica has nobody to wait for, and what it takes
then is the broker's own time). A machine that does not wait, or not long enough, often gives the
same answer, only sooner; so the time counts, too. A real broker and the recorder take some time of
their own: `Tolerances` says how much.
"""

from collections.abc import Sequence
from typing import NamedTuple

from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.kafka_apis import METADATA, PRODUCE, Trait

SECOND_MS = 1000


class Tolerances(NamedTuple):
    """What a real broker and the recorder may take, in ms.

    Attributes:
        early: how long before its recorded end a request that may wait may be answered.
        moved: how long after its arrival a request may be handled, or, where it was queued, after
            the answer to the one before on its connection; and how long before its recorded end
            the deadline of a wait may pass, or a wait be held.
        asked_again: how long after its arrival a request that may wait may be handled: it waits
            instead of being asked again.
        late: how long after its answer a change of metadata may be read, or markers written.
    """

    early: int = 100
    moved: int = 50
    asked_again: int = 25
    late: int = 150

    def scaled(self, factor: float) -> "Tolerances":
        """The tolerances for a broker, or a recorder, that much slower."""
        return Tolerances(*(round(value * factor) for value in self))

    def told_in(self, resolution_ms: int) -> "Tolerances":
        """The tolerances for times of which only multiples of `resolution_ms` are told."""
        return Tolerances(*(value + resolution_ms - 1 for value in self))


TOLERANCES = Tolerances()


def resolution_ms(exchanges: Sequence[Exchange]) -> int:
    """How exact the recorded times are: 1000 for a log that tells whole seconds, else 1 ms."""
    times = [time for exchange in exchanges for time in (exchange.time, exchange.end)]
    return SECOND_MS if all(time % SECOND_MS == 0 for time in times) else 1


def has_replicas(exchanges: Sequence[Exchange]) -> bool:
    """Whether the recorded cluster has several brokers, so that partitions may have replicas."""
    if len({exchange.broker for exchange in exchanges}) > 1:
        return True
    answers = (e.response for e in exchanges if e.header.request_api_key == METADATA.key)
    return any(isinstance(each, dict) and len(each.get("brokers", ())) > 1 for each in answers)


def may_wait(exchange: Exchange, is_replicated: bool) -> bool:
    """Whether the broker may have had this request wait.

    Args:
        exchange: the request.
        is_replicated: whether partitions may have replicas to wait for (`has_replicas`).
    """
    key = exchange.header.request_api_key
    if exchange.has(Trait.MAY_WAIT):
        return True
    is_produce = key == PRODUCE.key and exchange.body().get("acks") == -1
    return is_replicated and (is_produce or exchange.has(Trait.COMMITS_OFFSETS))


def slowest_ms(exchanges: Sequence[Exchange]) -> int:
    """How long the answer took that came last among those that wait for nothing; 0 without any."""
    is_replicated = has_replicas(exchanges)
    plain = (e for e in exchanges if e.is_recorded and not may_wait(e, is_replicated))
    return max((each.end - each.time for each in plain), default=0)


class Times:
    """What the times of one exchange allow.

    Args:
        exchange: the request and its recorded end.
        previous: the one before on its connection: the request was queued until its answer.
        tolerances: how far times may be apart.
        is_replicated: whether partitions may have replicas to wait for.
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
        self.latest_start = start + (tolerances.asked_again if waits else tolerances.moved)
        self._is_timed = waits and exchange.is_recorded
        self._early = tolerances.early
        self._moved = tolerances.moved
        self._end = exchange.end

    def is_too_early(self, time: int, is_expired: bool) -> bool:
        """Whether an answer at `time` comes long before the recorded one.

        Args:
            time: of the answer, in ms since 1970.
            is_expired: whether the deadline of its wait had passed.
        """
        return self._is_timed and self._end - time > (self._moved if is_expired else self._early)

    def may_hold(self, since: int) -> bool:
        """Whether a wait that might have ended at `since` may end at its recorded end."""
        return self._end - since <= self._moved
