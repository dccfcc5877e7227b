"""The order in which a replay handles the events of a recording.

A recording has the arrival and response time of each request; the broker handled it in between. By
default a request is handled at arrival. If the responses show another order, `search.py` finds one
within these rules:

- a request is handled between its arrival and its response, and unless it was queued, at most
  `Tolerances.moved` after its arrival;
- requests of a connection keep their order, and each is handled after the response to the
  previous one (Kafka mutes a connection meanwhile);
- a delayed request whose condition is met, or whose deadline has passed, may complete later, up
  to its recorded end, and reads again then: it is *held*, and a `complete` event completes it;
- the response to a delayed request is sent at most `Tolerances.early` before its recorded end;
- brokers may learn of a metadata change after the controller's response, and a coordinator may
  write transaction markers after its response: this is *late*, by at most `Tolerances.late`, and
  a `complete` event triggers it;
- a coordinator resolves the regular expressions of a group at most every 10 s, by a clock read
  after the heartbeat's arrival: one about 10 s after another of its group may or may not resolve
  them (`sooner`, `later`);
- a broker may notice a closed connection later than its client;
- trailing acks 0 requests of a connection may be *lost*: a broker that cannot append one closes
  the connection and reads no later request; the model must refuse the first lost one;
- a broker knows a new partition before it opens its log: up to `Tolerances.opened` after the
  creation, a request that it refuses with 6 NOT_LEADER_OR_FOLLOWER, 14
  COORDINATOR_LOAD_IN_PROGRESS or 16 NOT_COORDINATOR may be lost, too.

Both engines run the events of a schedule in order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brokertwin.recordings.replay.comparison import FieldDifference, ModelResponse
from brokertwin.recordings.replay.findings import request_with_findings
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import Choices, Event, Kind


class DeliveryStep(NamedTuple):
    """One event of a schedule.

    Attributes:
        kind: a request, the completion of a held or late one, or a disconnect.
        exchange_id: the exchange of the request or disconnect.
        time: when it is handled, in ms since 1970.
    """

    kind: Kind
    exchange_id: str
    time: int


class DeliverySchedule(msgspec.Struct):
    """Steps in order, and their deviations from arrival order.

    Attributes:
        steps: requests and completions; each exchange has one request, unless it is lost.
        final_time: time of the final tick that completes pending requests, in ms since 1970.
        held: requests that end by a completion.
        late: requests whose metadata change or markers come with a completion.
        lost: requests that reached no log: they had no response, or were refused.
        resolves: whether heartbeats resolve regular expressions, where their time is ambiguous.
        moved: requests handled after their arrival, except queued ones.
        queued: requests that waited for an earlier one of their connection.
        unexplained: exchanges that no schedule within the limits explains.
        is_exhausted: the search reached its limit.
        ids: differences of generated ids, by exchange id.
        responses: the model's responses, if the search handled everything in this order. None if a
            wait was held or something is unexplained.
        used: the freedoms taken for each exchange id.
    """

    steps: list[DeliveryStep]
    final_time: int
    held: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    resolves: dict[str, bool] = {}
    moved: frozenset[str] = frozenset()
    queued: frozenset[str] = frozenset()
    unexplained: frozenset[str] = frozenset()
    is_exhausted: bool = False
    ids: dict[str, list[FieldDifference]] = {}
    responses: dict[str, ModelResponse] | None = None
    used: dict[str, frozenset[Freedom]] = {}


class ScheduleChange(NamedTuple):
    """A change that an attempt makes for one exchange.

    Attributes:
        moved: requests handled after its response.
        late: requests whose metadata change or markers come after its response.
        sooner: heartbeats that resolve regular expressions slightly before the interval ends.
        later: heartbeats that do not, slightly after it.
    """

    moved: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    sooner: tuple[int, ...] = ()
    later: tuple[int, ...] = ()


class Events:
    """Creates the documents of a schedule's events.

    Args:
        exchanges: the history.
        choices: the choices of each exchange, in the same order.
        cluster: the name of the cluster.
        part: prefix of the nonces; a continued replay needs other random values.
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
        """Return the event of a request or disconnect, handled at `time`."""
        made = self._made.get(exchange_id)
        if made is not None and made[:3] == (time, is_held, resolves):
            return made[3]
        event = self._events[exchange_id]
        event.time = time
        event.is_held = is_held
        chosen = event.choices or Choices()
        if chosen.resolves_regexes is not resolves:
            event.choices = msgspec.structs.replace(chosen, resolves_regexes=resolves)
        document = self._encoder.encode(event)
        self._made[exchange_id] = (time, is_held, resolves, document)
        return document

    def event(self, exchange_id: str) -> Event:
        """Return the event as last created; read only."""
        return self._events[exchange_id]

    def completion(self, exchange_id: str, time: int) -> bytes:
        """Return the event that completes a held request at `time`."""
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
        """Return an event that only advances time."""
        return self._encoder.encode(
            Event(id=f"tick/{time}", cluster=self._cluster, time=time, kind=Kind.TICK)
        )

    def of(self, schedule: DeliverySchedule) -> list[bytes]:
        """Return all events of a schedule in order, with the final tick."""
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


def in_order_of_arrival(exchanges: Sequence[Exchange]) -> DeliverySchedule:
    steps = [DeliveryStep(exchange.kind, exchange.id, exchange.time) for exchange in exchanges]
    return DeliverySchedule(steps, final_time=max(exchange.end for exchange in exchanges))
