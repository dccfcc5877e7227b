"""The story of a producer: who got it and took it over, what was written, what was refused, why.

It follows what the broker answered, in the order of the answers: an epoch counts from the answer
that gave it. A batch counts from its success; five are kept of each partition, as a broker does.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.bodies import Holder, Sent
from brokertwin.recordings.explain.epochs import APIS, MARKERS, Abort, Epochs
from brokertwin.recordings.explain.story import Entry, Refused, absent, in_order, sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.logs.producer import BATCHES_KEPT, SEQUENCE_MAX, sequence_before

OF_EPOCHS = (Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED)


class Given(NamedTuple):
    """An epoch of a producer, and the exchange that gave it."""

    epoch: int
    exchange: Exchange

    @property
    def words(self) -> str:
        """Who got it, by which request, when, and where it is recorded."""
        return words(self.exchange)


class Kept(NamedTuple):
    """A batch that is in the log."""

    batch: Sent
    exchange: Exchange


class Producers:
    """What a recording says of some producers.

    Args:
        exchanges: the recording.
        key: a producer id, or a transactional id.

    Raises:
        UserError: the recording has no such producer.
    """

    def __init__(self, exchanges: Sequence[Exchange], key: str) -> None:
        self.ids: set[int] = set()
        self.topics = bodies.topic_names(exchanges)
        self.names: set[str] = set()
        self.epochs: dict[int, Given] = {}
        self.batches: dict[tuple[str, int, int], deque[Kept]] = defaultdict(
            lambda: deque(maxlen=BATCHES_KEPT)
        )
        self._fencing: dict[str, Exchange] = {}
        self._asked = in_order(exchanges, APIS | {MARKERS})
        self._of_epochs = Epochs(exchanges, self._asked)
        self._find(key)

    def story(self) -> list[Entry]:
        """One for each request of these producers, in the order of their answers."""
        entries = [self._entry(exchange, body) for exchange, body in self._asked]
        return [entry for entry in entries if entry is not None]

    def ending(self) -> list[str]:
        """Who has which epoch, and the last five batches of each partition."""
        lines = self._in_epochs()
        for (topic, partition, producer_id), kept in sorted(self.batches.items()):
            batches = ", ".join(
                f"{each.batch.first} to {each.batch.last} at offset {each.batch.offset}"
                for each in kept
            )
            if batches:
                of = f"producer {producer_id}, last sequences in {topic}-{partition}"
                lines.append(f"{of}: {batches}")
        return lines

    def _in_epochs(self) -> list[str]:
        """Which epoch each producer is in: a response gave it, or abort markers show it."""
        lines = []
        for producer_id, given in sorted(self.epochs.items()):
            epoch, since = given.epoch, given.words
            aborts = self._of_epochs.aborts[producer_id]
            newest = max(aborts, key=lambda each: each.epoch, default=None)
            if newest is not None and newest.epoch > epoch:
                epoch, since = newest.epoch, words(newest.marker)
            lines.append(f"producer {producer_id} is in epoch {epoch} since {since}")
        return lines

    def _find(self, key: str) -> None:
        """Find the producer ids and transactional ids of the key."""
        known = dict.fromkeys(
            (holder.producer_id, holder.name)
            for exchange, body in self._asked
            for holder in holders_of(exchange, body)
        )
        names = {producer_id: name for producer_id, name in known if name}
        of_key = {name for producer_id, name in known if key in (str(producer_id), name)}
        self.names = {name for name in of_key if name}
        self.ids = {
            producer_id
            for producer_id, _ in known
            if producer_id != bodies.NO_PRODUCER
            and (key == str(producer_id) or names.get(producer_id) == key)
        }
        self.names |= {names[each] for each in self.ids if each in names}
        if not self.ids and not self.names:
            shown = {names.get(i) or name or str(i) for i, name in known}
            raise absent("producer", key, sorted(shown - {str(bodies.NO_PRODUCER)}))

    def _entry(self, exchange: Exchange, body: Any) -> Entry | None:
        mine = [each for each in holders_of(exchange, body) if self._is_mine(each)]
        if not mine:
            return None
        response = exchange.response
        notes: list[str] = []
        batches = [
            each._replace(topic=self.topics.get(each.topic, each.topic))
            for each in bodies.sent(body, response)
            if each.producer_id in self.ids
        ]
        if exchange.api == MARKERS:
            return self._aborted(exchange)
        if exchange.api == "PRODUCE" and batches:
            said = "; ".join(map(said_of_batch, batches))
            refused = [self._of_batch(each, exchange, notes) for each in batches]
        else:
            holder = mine[0]
            if exchange.api == "PRODUCE" and holder.producer_id == bodies.NO_PRODUCER:
                holder = self._of_epochs.holder(exchange, holder.name)
            is_produce = exchange.api == "PRODUCE"
            said = self._written(response) if is_produce else _said(exchange, body, holder)
            codes = dict.fromkeys(bodies.errors(response))
            refused = [Refused(code, self._because(code, holder, exchange)) for code in codes]
            self._note_epoch(exchange, holder, notes)
        kept = [each for each in refused if each is not None]
        return Entry.of(exchange, said, notes, kept)

    def _written(self, response: Any) -> str:
        """The partitions of a Produce whose batch headers are not recorded."""
        places = [
            f"{self._topic(topic)}-{each['index']}"
            + (" refused" if each["errorCode"] else f" at offset {each['baseOffset']}")
            for topic in (response or {}).get("responses") or ()
            for each in topic["partitionResponses"]
        ]
        return f"{', '.join(places)}, without batch headers" if places else "not answered"

    def _topic(self, part: Any) -> str:
        """The topic of a part of a body, by its name if a response has it."""
        topic = bodies.topic_of(part)
        return self.topics.get(topic, topic)

    def _aborted(self, exchange: Exchange) -> Entry | None:
        """Entry of an abort by the coordinator itself; None for markers that a request led to."""
        found = self._aborts_by(exchange)
        if not found:
            return None
        return Entry.of(exchange, "; ".join(sorted(each.words for each in found)), [], [])

    def _aborts_by(self, exchange: Exchange) -> list[Abort]:
        return [
            each
            for producer_id in sorted(self.ids)
            for each in self._of_epochs.aborts[producer_id]
            if each.marker is exchange and each.asked is None
        ]

    def _is_mine(self, holder: Holder) -> bool:
        return holder.producer_id in self.ids or holder.name in self.names

    def _note_epoch(self, exchange: Exchange, asked: Holder, notes: list[str]) -> None:
        """Takes the epoch that an answer gives: of InitProducerId, and of EndTxn from 5 on."""
        answer = exchange.response or {}
        is_init = exchange.api == "INIT_PRODUCER_ID"
        if is_init and answer.get("errorCode") == Error.CONCURRENT_TRANSACTIONS:
            self._fencing.setdefault(asked.name or "", exchange)
        producer_id, epoch = answer.get("producerId", -1), answer.get("producerEpoch", -1)
        if answer.get("errorCode") or producer_id == bodies.NO_PRODUCER or epoch < 0:
            return
        former = self.epochs.get(producer_id)
        if former is not None and former.epoch < epoch:
            notes.append(f"bumped epoch {former.epoch} of producer {producer_id} to {epoch}")
        self.epochs[producer_id] = Given(epoch, exchange)
        if is_init:
            self._fencing.pop(asked.name or "", None)

    def _of_batch(self, batch: Sent, exchange: Exchange, notes: list[str]) -> Refused | None:
        """What became of a batch; a success is kept."""
        kept = self.batches[batch.topic, batch.partition, batch.producer_id]
        if batch.error:
            return Refused(batch.error, self._because_of_batch(batch, kept, exchange))
        repeated = [each for each in kept if each.batch[3:6] == batch[3:6]]
        if repeated:
            notes.append(f"a repeat of {words(repeated[-1].exchange)}: it is in the log once")
        else:
            if kept and kept[-1].batch.epoch < batch.epoch:
                kept.clear()
            kept.append(Kept(batch, exchange))
        return None

    def _because_of_batch(self, batch: Sent, kept: deque[Kept], exchange: Exchange) -> str:
        last = kept[-1] if kept else None
        place = f"{batch.topic}-{batch.partition}"
        if last is not None and last.batch.epoch > batch.epoch:
            written = words(last.exchange)
            return f"{written} wrote to {place} in epoch {last.batch.epoch}; this is {batch.epoch}."
        if batch.error != Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            holder = Holder(batch.producer_id, batch.epoch, None)
            return self._because(batch.error, holder, exchange)
        if last is None:
            return (
                f"The batch begins at sequence {batch.first}, and the recording has none of"
                f" producer {batch.producer_id} before it in {place}: a new producer begins at 0."
            )
        if batch.epoch > last.batch.epoch:
            return (
                f"The epoch is new ({batch.epoch} after {last.batch.epoch}), so the batch has to"
                f" begin at 0; it begins at {batch.first}."
            )
        ended = f"sequence {last.batch.last}, by {words(last.exchange)}"
        missing = sequence_before(batch.first, last.batch.last + 1)
        if missing > SEQUENCE_MAX // 2:
            return (
                f"It goes back: {place} ends at {ended}; this batch begins at {batch.first}, and is"
                " not one of the last five."
            )
        return (
            f"{place} ends at {ended}; this batch begins at {batch.first}:"
            f" {missing} records in between are not in the log."
        )

    def _because(self, code: int, asked: Holder, exchange: Exchange) -> str:
        """What an error about an epoch, or about a transaction that has ended, comes of."""
        is_commit = exchange.api == "END_TXN" and bool(exchange.body().get("committed"))
        is_ended = code == Error.INVALID_TXN_STATE and is_commit
        if code not in OF_EPOCHS and not is_ended:
            return ""
        client = f"client {exchange.header.client_id or '?'}"
        timed_out = self._of_epochs.timed_out(asked, exchange)
        if timed_out is not None:
            return sentence(timed_out.words)
        given = self.epochs.get(asked.producer_id)
        if given is not None and given.epoch > asked.epoch and not is_ended:
            has = f"{client} has {asked.epoch}" if asked.epoch >= 0 else f"{client} has another one"
            return f"{given.words} bumped the epoch to {given.epoch}; {has}."
        if given is not None and given.epoch < asked.epoch:
            return (
                f"{client} has epoch {asked.epoch}, which no response gave: the last one is"
                f" {given.epoch}, by {given.words}."
            )
        fencing = next((self._fencing[n] for n in sorted(self.names) if n in self._fencing), None)
        if fencing is not None:
            return (
                f"{words(fencing)} has fenced it. That request gets"
                " 51 CONCURRENT_TRANSACTIONS until the open transaction is aborted."
            )
        return unexplained(self._of_epochs, asked, exchange)


def unexplained(epochs: Epochs, asked: Holder, exchange: Exchange) -> str:
    """Explain a refusal if no response with a newer epoch is recorded."""
    overdue = epochs.overdue(asked, exchange)
    if overdue is not None:
        open_ms, timeout_ms = overdue
        return (
            f"The transaction had been open for {open_ms} ms, longer than transaction.timeout.ms"
            f" ({timeout_ms} ms): the coordinator has probably aborted it. The recording has no"
            " marker of that."
        )
    return (
        "The recording does not show the newer epoch. The transaction may have timed out"
        " (transaction.timeout.ms), or another producer may have got the epoch in a part that is"
        " not recorded."
    )


def holders_of(exchange: Exchange, body: Any) -> list[Holder]:
    """The producers of a request; for InitProducerId also the one that it gets."""
    if exchange.api not in APIS | {MARKERS}:
        return []
    found = bodies.holders(exchange.api, body)
    if exchange.api == "PRODUCE" and not found and body.get("transactionalId"):
        found = [Holder(bodies.NO_PRODUCER, -1, body["transactionalId"])]
    answer: Any = exchange.response or {}
    if exchange.api == "INIT_PRODUCER_ID" and not answer.get("errorCode"):
        name = found[0].name if found else None
        found.append(Holder(answer.get("producerId", -1), answer.get("producerEpoch", -1), name))
    return found


def said_of_batch(batch: Sent) -> str:
    """A batch in words, and what became of it."""
    became = f"offset {batch.offset}" if not batch.error else "refused"
    return (
        f"{batch.topic}-{batch.partition}: producer {batch.producer_id} epoch {batch.epoch},"
        f" sequences {batch.first} to {batch.last}, {became}"
    )


def _said(exchange: Exchange, body: Any, asked: Holder) -> str:
    """A request in words, with its result."""
    said = f"{asked.name}" if asked.name else "no transactional id"
    if asked.producer_id != bodies.NO_PRODUCER:
        said += f", producer {asked.producer_id} epoch {asked.epoch}"
    if exchange.api == "END_TXN":
        said += ", commit" if body.get("committed") else ", abort"
    answer: Any = exchange.response or {}
    if exchange.api == "INIT_PRODUCER_ID" and not answer.get("errorCode"):
        said += f": got producer {answer.get('producerId')} epoch {answer.get('producerEpoch')}"
    return said
