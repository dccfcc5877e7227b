"""What members of a share group did with records: given again, given back, rejected (KIP-932)."""

from collections.abc import Iterator, Sequence
from typing import Any

from brokertwin.recordings.explain import bodies, deliveries
from brokertwin.recordings.explain.deliveries import Acknowledged, Before, Deliveries, Given
from brokertwin.recordings.explain.story import words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH
from brokertwin.state.share.share_partition import REJECT, RELEASE

SAID = {RELEASE: "gives back", REJECT: "rejects"}
"""The acknowledgements that are told; the others are everyday's."""


class Shared:
    """The records of a share group, followed request by request.

    Args:
        exchanges: the recording: its answers have the names of topics.
        asked: the group's requests, in the order of their answers.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], asked: Sequence[tuple[Exchange, Any]]
    ) -> None:
        self._names = bodies.topic_names(exchanges)
        self._seen = Deliveries(asked)
        self._sessions: dict[tuple[int, str], Exchange] = {}
        self._closed: dict[tuple[int, str], Exchange] = {}

    def notes(self, exchange: Exchange, body: Any) -> Iterator[str]:
        """Takes a ShareFetch or a ShareAcknowledge; gives back what is worth saying of it."""
        for each in deliveries.acknowledged(exchange, body):
            if each.outcome in SAID and not each.error and each.place.topic:
                yield f"{SAID[each.outcome]} {self._records(each)}"
        for given in deliveries.given(exchange, body):
            yield from (self._again(given, before) for before in self._seen.before(given))
            self._seen.take(given)
        if not (exchange.response or {}).get("errorCode"):
            yield from self._session(exchange, body)

    def because(self, code: int, exchange: Exchange, body: Any) -> str:
        """What an error comes of, in this recording; "" where it says nothing."""
        if code == Error.INVALID_RECORD_STATE:
            refused = [
                each
                for each in deliveries.acknowledged(exchange, body)
                if each.error == Error.INVALID_RECORD_STATE
            ]
            return " ".join(
                f"{self._name(each.place)} {_span(first, last)} went to member {holder.member}:"
                f" {words(holder.exchange)}."
                for each in refused
                for first, last, holder in self._seen.holders(each)
            )
        if code == Error.SHARE_SESSION_NOT_FOUND:
            key = exchange.broker, str(body.get("memberId"))
            if key in self._closed:
                return f"The member has closed it: {words(self._closed[key])}."
            if key in self._sessions:
                return (
                    f"It was opened by {words(self._sessions[key])}, and has ended since: its"
                    " connection is gone, or its broker was started again."
                )
            return "The recording has no answer that opened it."
        return ""

    def _session(self, exchange: Exchange, body: Any) -> Iterator[str]:
        key, epoch = (exchange.broker, str(body.get("memberId"))), body.get("shareSessionEpoch")
        if epoch == INITIAL_EPOCH:
            self._sessions[key] = exchange
            self._closed.pop(key, None)
            yield "opens a share session"
        elif epoch == FINAL_EPOCH:
            self._closed[key] = exchange
            self._sessions.pop(key, None)
            yield "closes its share session, and gives back what it has"

    def _again(self, given: Given, before: Before) -> str:
        said = f"{self._name(given.place)} {_span(before.first, before.last)}"
        said += f": delivery {given.deliveries}"
        former = before.given
        if former is None:
            return said
        said += f"; before, {former.member} got it by {words(former.exchange)}"
        if before.released is None:
            return f"{said}, and did not acknowledge it in time"
        return f"{said}, and gave it back by {words(before.released)}"

    def _records(self, each: Acknowledged) -> str:
        return f"{self._name(each.place)} {_span(each.first, each.last)}"

    def _name(self, place: deliveries.Place) -> str:
        return f"{self._names.get(place.topic, place.topic)}-{place.partition}"


def _span(first: int, last: float) -> str:
    """`7`, `7 to 9`."""
    return str(first) if first == last else f"{first} to {last}"
