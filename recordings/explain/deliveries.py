"""Which member of a share group had which records, and what it did with them (KIP-932).

It follows the answers of ShareFetch and ShareAcknowledge. What a broker does unasked, when a lock
is over or a connection is gone, no answer tells: it shows where the records are given again.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH
from brokertwin.state.share.share_partition import RELEASE

APIS = ("SHARE_FETCH", "SHARE_ACKNOWLEDGE")


class Place(NamedTuple):
    """A partition as one broker leads it for a group; the topic by its id."""

    broker: int
    group: str
    topic: str
    partition: int


class Acknowledged(NamedTuple):
    """What a member said of the records from `first` to `last`.

    `outcome` is Kafka's type of acknowledgement, `error` what the member was told.
    """

    place: Place
    member: str
    exchange: Exchange
    first: int
    last: float
    outcome: int
    error: int


class Given(NamedTuple):
    """Records that a member got; `deliveries` counts this one and those before it."""

    place: Place
    member: str
    exchange: Exchange
    first: int
    last: int
    deliveries: int


class Before(NamedTuple):
    """Who had records before they were given again.

    Attributes:
        first, last: of those of the given records that this is about.
        given: the delivery before; None where the recording has it not.
        released: the request that gave them back; None where there is none.
    """

    first: int
    last: int
    given: Given | None
    released: Exchange | None


class Deliveries:
    """What has been given and acknowledged, of exchanges in the order of their answers."""

    def __init__(self, asked: Sequence[tuple[Exchange, Any]]) -> None:
        self._given: dict[Place, list[Given]] = defaultdict(list)
        self._released: dict[tuple[int, str, str], list[Acknowledged]] = defaultdict(list)
        for exchange, body in asked:
            for each in acknowledged(exchange, body):
                if each.outcome == RELEASE and not each.error:
                    self._released[each.place.broker, each.place.group, each.member].append(each)

    def take(self, new: Given) -> None:
        """Records were given."""
        self._given[new.place].append(new)

    def before(self, new: Given) -> Iterator[Before]:
        """Who had records that are given again, by stretches; nothing of a first delivery."""
        if new.deliveries > 1:
            for first, last, former in self._holders(new.place, new.first, new.last):
                is_next = former is not None and former.deliveries == new.deliveries - 1
                known = former if is_next else None
                by = known and self._release(known, first, last, new.exchange)
                yield Before(first, last, known, by)

    def holders(self, each: Acknowledged) -> Iterator[tuple[int, int, Given]]:
        """Which of these records were last given to somebody else, and to whom."""
        for first, last, former in self._holders(each.place, each.first, int(each.last)):
            if former is not None and former.member != each.member:
                yield first, last, former

    def _holders(
        self, place: Place, first: int, last: int
    ) -> Iterator[tuple[int, int, Given | None]]:
        """The newest delivery of each stretch."""
        open_stretches = [(first, last)]
        for former in reversed(self._given[place]):
            left: list[tuple[int, int]] = []
            for begin, end in open_stretches:
                low, high = max(begin, former.first), min(end, former.last)
                if low > high:
                    left.append((begin, end))
                    continue
                yield low, high, former
                left += [each for each in ((begin, low - 1), (high + 1, end)) if each[0] <= each[1]]
            open_stretches = left
            if not left:
                return
        yield from ((begin, end, None) for begin, end in open_stretches)

    def _release(self, former: Given, first: int, last: int, again: Exchange) -> Exchange | None:
        """The request by which a member gave records back, between two deliveries of them.

        Its answer may come after the fetch's that it made possible.
        """
        place, since = former.place, former.exchange.end
        for each in self._released[place.broker, place.group, former.member]:
            is_between = each.exchange.end >= since and each.exchange.time <= again.end
            is_here = each.place == place and each.first <= last and each.last >= first
            if is_between and (is_here or not each.place.topic):
                return each.exchange
        return None


def given(exchange: Exchange, body: Any) -> Iterator[Given]:
    """The records that a ShareFetch's answer lets its member have."""
    for topic in (exchange.response or {}).get("responses") or ():
        for part in topic["partitions"]:
            place = _place(exchange, body, topic["topicId"], part["partitionIndex"])
            for each in part.get("acquiredRecords") or ():
                yield Given(
                    place,
                    str(body.get("memberId")),
                    exchange,
                    each["firstOffset"],
                    each["lastOffset"],
                    each["deliveryCount"],
                )


def acknowledged(exchange: Exchange, body: Any) -> Iterator[Acknowledged]:
    """What a request says of records, and what was answered to that.

    The end of a session gives back all that the member has: its topic is "".
    """
    answer = exchange.response or {}
    if exchange.api not in APIS or answer.get("errorCode"):
        return
    member = str(body.get("memberId"))
    codes = {
        (topic["topicId"], part["partitionIndex"]): part.get(
            "acknowledgeErrorCode", part["errorCode"]
        )
        for topic in answer.get("responses") or ()
        for part in topic["partitions"]
    }
    for topic in body.get("topics") or ():
        for part in topic["partitions"]:
            key = topic["topicId"], part["partitionIndex"]
            for batch in part.get("acknowledgementBatches") or ():
                if key in codes:
                    place = _place(exchange, body, *key)
                    for first, last, outcome in _stretches(batch):
                        yield Acknowledged(
                            place, member, exchange, first, last, outcome, codes[key]
                        )
    if body.get("shareSessionEpoch") == FINAL_EPOCH:
        place = _place(exchange, body, "", -1)
        yield Acknowledged(place, member, exchange, 0, math.inf, RELEASE, Error.NONE)


def _place(exchange: Exchange, body: Any, topic: str, partition: int) -> Place:
    return Place(exchange.broker, str(body.get("groupId")), topic, partition)


def _stretches(batch: Any) -> Iterator[tuple[int, int, int]]:
    """The outcomes of a batch: one for all of its records, or one for each."""
    first, last, types = batch["firstOffset"], batch["lastOffset"], batch["acknowledgeTypes"]
    if len(types) == 1:
        yield first, last, types[0]
        return
    begin = 0
    for number in range(1, len(types) + 1):
        if number == len(types) or types[number] != types[begin]:
            yield first + begin, first + number - 1, types[begin]
            begin = number
