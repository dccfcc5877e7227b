"""The order of events that a recording is decided in.

A recording says when each request arrived and when it had been answered; in between, the broker
handled it. By default a request is handled when it arrives. Where recorded answers show another
order, `search.py` finds one within these rules:

- a request is handled no earlier than it arrived and no later than it had been answered, and,
  unless it was queued, at most `Tolerances.moved` after it arrived;
- a connection is never reordered, and a request on it is handled only after the one before it has
  been answered (Kafka mutes a connection while it works on a request);
- a delayed request whose condition has been met, or whose deadline has passed, may be answered
  somewhat later, up to its recorded end, and reads again at that moment: it is then *held*, and a
  `complete` event ends its wait;
- the answer to a request that may wait is given at most `Tolerances.early` before its recorded end;
- the brokers of a cluster read a change of its metadata somewhat later than the controller has
  answered, and a coordinator has the markers of a transaction written somewhat later than it has
  answered the producer: that is then *late*, by `Tolerances.late` at most, and a `complete` event
  lets it happen;
- a coordinator resolves the regular expressions of a group at most every 10 s, by a clock that it
  reads after the heartbeat has arrived: a heartbeat about 10 s after another one of its group may
  be the one that resolves them or not (`sooner`, `later`);
- a broker notices somewhat later than its client that a connection has ended;
- requests without an answer (Produce with acks 0) at the end of a connection may be *lost* with it:
  a broker that cannot append one closes the connection, and whatever came behind is not read; the
  first one lost has to be one that the machine refuses.

Both engines run the events of a schedule in their order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brokertwin.recordings.replay.comparison import Answer, Difference
from brokertwin.recordings.replay.findings import request_with_findings
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import Choices, Event, Kind


class Step(NamedTuple):
    """One event of a schedule.

    Attributes:
        kind: a request, or the completion of one that is held or late; or that a connection ends.
        exchange_id: the exchange whose request it is, or the connection's end.
        time: when it is handled, in ms since 1970.
    """

    kind: Kind
    exchange_id: str
    time: int


class Schedule(msgspec.Struct):
    """Steps in order, and what in them differs from the order of arrival.

    Attributes:
        steps: requests and completions; every exchange has one request, unless it is lost.
        final_time: when the tick at the end fires what still waits, in ms since 1970.
        held: requests whose wait ends by a completion.
        late: requests whose change of metadata is read, or whose markers are written, by a
            completion.
        lost: requests that never reached a log, and had no answer.
        resolves: heartbeats to whether they resolve regular expressions, if their time leaves it
            open.
        moved: requests handled later than they arrived, without those that queued.
        queued: requests that waited for the answer to the one before on their connection.
        unexplained: exchanges that no schedule within the limits explains.
        is_exhausted: whether the search came to its limit and the rest was not searched.
        ids: exchanges whose ids the machine would have picked otherwise than the broker, by id.
        answers: what the machine said to each exchange, where the search knows: it has decided
            everything in this order. None where a wait was held, or something is not explained.
        used: for the sake of which exchanges, by id, which of these freedoms was taken.
    """

    steps: list[Step]
    final_time: int
    held: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    resolves: dict[str, bool] = {}
    moved: frozenset[str] = frozenset()
    queued: frozenset[str] = frozenset()
    unexplained: frozenset[str] = frozenset()
    is_exhausted: bool = False
    ids: dict[str, list[Difference]] = {}
    answers: dict[str, Answer] | None = None
    used: dict[str, frozenset[Freedom]] = {}


class Change(NamedTuple):
    """What an attempt changes for the sake of one exchange.

    Attributes:
        moved: requests that are handled after it has been answered.
        late: requests whose change of metadata is read, or whose markers are written, after it has
            been answered.
        lost: requests that are lost.
        sooner: heartbeats that resolve regular expressions, although it is a little early.
        later: heartbeats that do not, although it is time.
    """

    moved: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    sooner: tuple[int, ...] = ()
    later: tuple[int, ...] = ()


class Events:
    """Makes the documents of a schedule's events.

    Args:
        exchanges: the history.
        choices: the choices of each exchange, in the same order.
        cluster: the name of the cluster that the events are given to.
        part: what their nonces begin with: a replay that goes on from another's state draws others.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        choices: Sequence[Choices | None],
        cluster: str,
        part: str = "",
    ) -> None:
        self._cluster = cluster
        self._encoder = msgspec.json.Encoder()
        self._made: dict[str, tuple[int, bool, bool | None, bytes]] = {}
        self._events = {
            exchange.id: Event(
                id=exchange.id,
                cluster=cluster,
                broker=exchange.broker,
                time=exchange.time,
                kind=exchange.kind,
                connection=exchange.connection,
                principal=exchange.principal,
                principal_is_asserted=True,
                host=exchange.host,
                nonce=f"{part}{exchange.id}",
                request_header=exchange.header if exchange.kind is Kind.REQUEST else None,
                request=request_with_findings(exchange),
                choices=chosen,
            )
            for exchange, chosen in zip(exchanges, choices, strict=True)
        }

    def request(
        self, exchange_id: str, time: int, is_held: bool = False, resolves: bool | None = None
    ) -> bytes:
        """The event of an exchange's request, or of a connection's end, handled at `time`."""
        made = self._made.get(exchange_id)
        if made is not None and made[:3] == (time, is_held, resolves):
            return made[3]
        event = self._events[exchange_id]
        event.time = time
        event.is_held = is_held
        if event.choices is not None or resolves is not None:
            event.choices = msgspec.structs.replace(
                event.choices or Choices(), resolves_regexes=resolves
            )
        document = self._encoder.encode(event)
        self._made[exchange_id] = (time, is_held, resolves, document)
        return document

    def event(self, exchange_id: str) -> Event:
        """The same, as it was made last; to be read only."""
        return self._events[exchange_id]

    def completion(self, exchange_id: str, time: int) -> bytes:
        """The event that ends the wait of a held request at `time`."""
        return self._encoder.encode(
            Event(
                id=f"{exchange_id}/complete",
                cluster=self._cluster,
                broker=self._events[exchange_id].broker,
                time=time,
                kind=Kind.COMPLETE,
                of=exchange_id,
            )
        )

    def tick(self, time: int) -> bytes:
        """An event that only lets time pass."""
        return self._encoder.encode(
            Event(id=f"tick/{time}", cluster=self._cluster, time=time, kind=Kind.TICK)
        )

    def of(self, schedule: Schedule) -> list[bytes]:
        """All events of a schedule in their order, the final tick included."""
        completed = schedule.held | schedule.late
        documents = [
            self.completion(step.exchange_id, step.time)
            if step.kind is Kind.COMPLETE
            else self.request(
                step.exchange_id,
                step.time,
                step.exchange_id in completed,
                schedule.resolves.get(step.exchange_id),
            )
            for step in schedule.steps
        ]
        return [*documents, self.tick(schedule.final_time)]


def in_order_of_arrival(exchanges: Sequence[Exchange]) -> Schedule:
    """The schedule without any search: every request when it arrives."""
    steps = [Step(exchange.kind, exchange.id, exchange.time) for exchange in exchanges]
    return Schedule(steps, final_time=max(exchange.end for exchange in exchanges))
