"""How far the times of a schedule may be from the recorded ones.

Kafka answers some requests only after a wait: Fetch, JoinGroup, SyncGroup, and what has to be in
the log of every replica first (Produce with acks -1, OffsetCommit, TxnOffsetCommit). A machine that
does not wait, or not long enough, often gives the same answer, only sooner; so the time counts,
too. A real broker and the recorder take some time of their own: `Tolerances` says how much.
"""

from typing import NamedTuple

from brokerstream.streaming.replay.recording import Exchange

PRODUCE, FETCH = 0, 1
WAITING = frozenset({FETCH, 8, 11, 14, 28})
"""API keys of requests that may wait: Fetch, OffsetCommit, JoinGroup, SyncGroup, TxnOffsetCommit.
Produce waits with acks -1 only."""


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


TOLERANCES = Tolerances()


def may_wait(exchange: Exchange) -> bool:
    """Whether the broker may have had this request wait."""
    key = exchange.header.request_api_key
    return key in WAITING or (key == PRODUCE and exchange.body().get("acks") == -1)


class Times:
    """What the times of one exchange allow.

    Args:
        exchange: the request and its recorded end.
        previous: the one before on its connection: the request was queued until its answer.
        tolerances: how far times may be apart.
    """

    def __init__(
        self, exchange: Exchange, previous: Exchange | None, tolerances: Tolerances
    ) -> None:
        waits = may_wait(exchange)
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
