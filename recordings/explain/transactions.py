"""The story of a transactional id: its transactions, what each took in, and how each ended.

It is the story of its producer, with the transactions counted as the answers show them. One begins
with the first partition, offset or batch that was taken, and ends with EndTxn, or with the
InitProducerId of whoever comes next: the coordinator aborts what its predecessor left open.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.epochs import MARKERS
from brokertwin.recordings.explain.producers import Producers, holders_of
from brokertwin.recordings.explain.story import Entry, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error


class Transaction(msgspec.Struct):
    """A transaction.

    Attributes:
        number: in the recording, from 1.
        producer_id: whose.
        epoch: in which epoch.
        began: the request that was taken first.
        partitions: topic and number to how many batches were written there.
        groups: the groups whose offsets belong to it.
        ended: the request that ended it; None while it is open.
        became: `committed` or `aborted`; "" while it is open.
        why: how the coordinator came to abort it by itself; "" if a request ended it.
    """

    number: int
    producer_id: int
    epoch: int
    began: Exchange
    partitions: Counter[tuple[str, int]]
    groups: dict[str, None]
    ended: Exchange | None = None
    became: str = ""
    why: str = ""

    @property
    def words(self) -> str:
        """One line."""
        named = sorted(self.partitions.items())
        places = [f"{topic}-{number}{_batches(count)}" for (topic, number), count in named]
        offsets = [f"offsets of group {name}" for name in self.groups]
        of = f"transaction {self.number}, producer {self.producer_id} epoch {self.epoch}"
        held = ", ".join([*places, *offsets]) or "nothing"
        if self.ended is None:
            return f"{of}: open since {words(self.began)}; {held}"
        if self.why:
            return f"{of}: {self.why}; {held}"
        return f"{of}: {self.became} after {self.lasted_ms} ms by {words(self.ended)}; {held}"

    @property
    def lasted_ms(self) -> int:
        """From the request that began it to the answer that ended it."""
        return self.ended.end - self.began.time if self.ended is not None else 0


class Transactions(Producers):
    """What a recording says of a transactional id.

    Args:
        exchanges: the recording.
        key: the transactional id, or the producer id of one.

    Raises:
        UserError: the recording has no such producer, or it has no transactional id.
    """

    def __init__(self, exchanges: Sequence[Exchange], key: str) -> None:
        super().__init__(exchanges, key)
        if not self.names:
            raise UserError(
                f"Producer {key} has no transactional id in the recording.",
                f"Show its batches with: brokertwin explain producer {key}",
            )
        self.told: list[Transaction] = []

    def ending(self) -> list[str]:
        """Each transaction, and who has which epoch."""
        return [each.words for each in self.told] + self._in_epochs()

    @property
    def _open(self) -> Transaction | None:
        last = self.told[-1] if self.told else None
        return last if last is not None and last.ended is None else None

    def _entry(self, exchange: Exchange, body: Any) -> Entry | None:
        entry = super()._entry(exchange, body)
        if entry is None:
            return None
        return entry._replace(notes=[*self._follow(exchange, body, entry), *entry.notes])

    def _follow(self, exchange: Exchange, body: Any, entry: Entry) -> Iterator[str]:
        """Takes what an answer changes; gives back what is worth saying of it."""
        codes = {each.code for each in entry.refused}
        if exchange.api == MARKERS:
            known = self._open
            if known is not None:
                known.why = self._aborts_by(exchange)[0].words
                yield from self._end(exchange, "aborted")
        elif exchange.api == "INIT_PRODUCER_ID":
            yield from self._init(exchange, codes)
        elif exchange.api == "END_TXN" and not codes:
            yield from self._end(exchange, "committed" if body.get("committed") else "aborted")
        elif exchange.api == "PRODUCE":
            if body.get("transactionalId"):
                yield from self._taken(exchange, body)
        elif exchange.api == "ADD_PARTITIONS_TO_TXN":
            for place in _added(body, exchange.response, self.names):
                yield from self._take(exchange, place)
        elif not codes:
            yield from self._offsets(exchange, str(body.get("groupId") or ""))

    def _init(self, exchange: Exchange, codes: set[int]) -> Iterator[str]:
        if not codes:
            yield from self._end(exchange, "aborted", is_asked=False)
        elif Error.CONCURRENT_TRANSACTIONS in codes and self._open is not None:
            yield f"transaction {self._open.number} is open: it has to be aborted first"

    def _end(self, exchange: Exchange, became: str, is_asked: bool = True) -> Iterator[str]:
        known = self._open
        if known is None:
            if is_asked:
                yield f"no transaction is open in the recording: {became} again, or empty"
            return
        known.ended, known.became = exchange, became
        by = "" if is_asked else ", by whoever came next"
        yield f"transaction {known.number} is {became} after {known.lasted_ms} ms{by}"

    def _begin(self, exchange: Exchange) -> Iterator[str]:
        if self._open is None:
            holders = holders_of(exchange, exchange.body())
            mine = next((h for h in holders if self._is_mine(h)), bodies.Holder(-1, -1, None))
            if mine.producer_id == bodies.NO_PRODUCER:
                mine = self._of_epochs.holder(exchange, mine.name)
            number = len(self.told) + 1
            made = Transaction(number, mine.producer_id, mine.epoch, exchange, Counter(), {})
            self.told.append(made)
            yield f"transaction {number} begins"

    def _take(self, exchange: Exchange, place: tuple[str, int], batches: int = 0) -> Iterator[str]:
        yield from self._begin(exchange)
        taken = self.told[-1].partitions
        if place not in taken:
            yield f"takes in {place[0]}-{place[1]}"
        taken[place] += batches

    def _taken(self, exchange: Exchange, body: Any) -> Iterator[str]:
        """Batches in the log; those of newer clients take their partitions in (KIP-890)."""
        batches = list(bodies.sent(body, exchange.response))
        for each in batches:
            if each.producer_id in self.ids and not each.error:
                topic = self.topics.get(each.topic, each.topic)
                yield from self._take(exchange, (topic, each.partition), 1)
        answered = (exchange.response or {}).get("responses") or ()
        for topic in answered if not batches else ():
            for part in topic["partitionResponses"]:
                if not part["errorCode"]:
                    yield from self._take(exchange, (self._topic(topic), part["index"]))

    def _offsets(self, exchange: Exchange, group: str) -> Iterator[str]:
        yield from self._begin(exchange)
        if group not in self.told[-1].groups:
            self.told[-1].groups[group] = None
            yield f"takes in offsets of group {group}"


def _added(body: Any, answer: Any, names: set[str]) -> Iterator[tuple[str, int]]:
    """The partitions that an AddPartitionsToTxn took into a transaction of these names."""
    answer = answer or {}
    checked = {
        each["transactionalId"] for each in body.get("transactions") or () if each.get("verifyOnly")
    }
    topics = list(answer.get("resultsByTopicV3AndBelow") or ())
    for each in answer.get("resultsByTransaction") or ():
        if each["transactionalId"] in names - checked:
            topics += each["topicResults"]
    for topic in topics:
        for result in topic["resultsByPartition"]:
            if not result["partitionErrorCode"]:
                yield bodies.topic_of(topic), result["partitionIndex"]


def _batches(count: int) -> str:
    """How many batches are known; a request log without their headers knows none."""
    return f" ({count} batch{'es' * (count > 1)})" if count else ""
