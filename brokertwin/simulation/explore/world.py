"""The whole state of a model between two deliveries, and the steps that lead to the next ones.

By default a request, its decision and its response are one step (`call`): a client has one request
in flight, so the time of sending is not visible, and steps of a client alone commute with all
steps of others. With `is_split` the three are steps of their own; `explore --no-reduction` shows
that both find the same states of the brokers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import permutations, product
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import API_KEYS, api_of_key
from brokertwin.simulation.explore.api import Between, Fault, Invariant, Model, Send
from brokertwin.simulation.explore.invariants import CellHolds, View
from brokertwin.simulation.explore.machine import (
    CLUSTER,
    T0,
    Answer,
    CellState,
    Effect,
    ForkableCell,
    Recent,
    Waiting,
    Way,
    error_codes,
    exchanged_bytes,
    response_code,
)
from brokertwin.simulation.explore.mistakes import ModelError, check_model, checked_sends
from brokertwin.simulation.explore.recall import UnsteadyError
from brokertwin.simulation.explore.requests import topic_id
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.delivery import MetadataRead
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.core.decision import CONTROLLER, Message, ReplicaFetch
from brokertwin.state.core.events import Choices, Event, Kind, RequestHeader
from brokertwin.state.core.pending import COMMIT_KEY, REQUEST_KEY
from brokertwin.state.core.records import LogTruncated
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.replication import network

TRANSACTIONAL_IDS_MAX = 100
IDS_OF_CLIENT = 50
KNOWN_MAX = 100_000
"""States of clients whose requests are kept at least."""

SETUP_TRIES = 10
SYMMETRIC_NAME_MIN = 6
KINDS = {
    Fault.STOP: Kind.STOP_BROKER,
    Fault.KILL: Kind.KILL_BROKER,
    Fault.START: Kind.START_BROKER,
    Fault.ISOLATE: Kind.ISOLATE_BROKER,
    Fault.SEVER: Kind.SEVER_BROKER,
    Fault.REJOIN: Kind.REJOIN_BROKER,
}

INTERNAL_IDS = {topic: topic_id(topic) for topic in INTERNAL_TOPICS}
"""The same ones, whichever request creates the topic."""

FAULT_TEXTS = {
    Fault.STOP: "stops",
    Fault.KILL: "crashes",
    Fault.START: "starts",
    Fault.ISOLATE: "is cut off from other brokers",
    Fault.SEVER: "is cut off from other brokers and the controller",
    Fault.REJOIN: "is reached again",
}

Step = tuple[Any, ...]
"""A step by name: its kind, the client or broker, and which of several."""


class ClientRun(NamedTuple):
    """A client: its state, the request without a response, and the response on its way.

    Attributes:
        waiting: the request that the client waits for.
        waiting_id: its id at the broker; "" while it is on its way there.
        response: a response on its way (split steps only).
        producer_id: the id that the request gets if it is assigned a new one.
        issued: producer ids issued to this client.
    """

    state: Any
    waiting: Send | None = None
    waiting_id: str = ""
    response: tuple[Any] | None = None
    producer_id: int = -1
    issued: int = 0


class Late(NamedTuple):
    """A request that its client has given up and that may still arrive.

    Attributes:
        text: the other fields, encoded.
    """

    text: bytes
    client: int
    send: Send
    producer_id: int


class World(NamedTuple):
    """A state of the model.

    Attributes:
        left: how often each fault may still happen, by `Fault`.
    """

    cell: CellState
    clients: tuple[ClientRun, ...]
    late: tuple[Late, ...]
    left: tuple[int, ...]
    ghosts: tuple[Any, ...]


COUNTED = (
    Fault.LATE,
    Fault.LOST,
    Fault.CRASH,
    Fault.WAIT,
    Fault.STOP,
    Fault.KILL,
    Fault.ISOLATE,
    Fault.SEVER,
    Fault.ELECT,
)
AT = {fault: number for number, fault in enumerate(COUNTED)}

_encode = msgspec.msgpack.Encoder().encode


class Facts(NamedTuple):
    """What the next steps depend on in a state of the cell."""

    serving: frozenset[int]
    may_start: tuple[int, ...]
    isolated: frozenset[int]
    leaderless: tuple[tuple[str, int], ...]


class Happening(StrEnum):
    """Kind of a line of a trace."""

    CALL = "call"
    GIVEN_UP = "given up"
    ARRIVAL = "arrival"
    RESPONSE = "response"
    BETWEEN = "between brokers"
    WAIT = "wait"
    FAULT = "fault"


class Exchange(msgspec.Struct):
    """A line of a trace: a message, and its response.

    Attributes:
        send, body: of a client's request, and its response.
        is_lost: the response does not reach the client.
        wait_ms: the time that passes.
    """

    kind: Happening
    sender: str
    receiver: str
    text: str
    response: str = ""
    note: str = ""
    send: Send | None = None
    body: Any = None
    is_lost: bool = False
    wait_ms: int = 0

    @property
    def is_pending(self) -> bool:
        """True if the response to a request comes later."""
        return self.kind is Happening.CALL and not self.response


class Explorer:
    """Steps of a model from state to state.

    Attributes:
        answered: counts of responses by API and error.
        trace: exchanges since it was last emptied, if `is_traced`.
    """

    def __init__(self, model: Model, *, is_split: bool = False) -> None:
        self.model = model
        self.is_split = is_split
        self.is_traced = False
        self.trace: list[Exchange] = []
        self.answered: Counter[tuple[str, int]] = Counter()
        self.taken: Counter[str] = Counter()
        check_model(model)
        names = [client.name for client in model.clients]
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._exchanges = _exchanges(model)
        is_checked = any(isinstance(each, CellHolds) for each in model.invariants)
        self.machine = ForkableCell(model.cluster, self._exchanges, is_checked=is_checked)
        brokers = self.machine.settings.brokers
        self._faulty = [each for each in brokers if each in (model.faults.brokers or brokers)]
        self._settings = self.machine.settings
        self._invariants: tuple[Invariant, ...] = model.invariants
        self._noting_sent = self._overriding("sent")
        self._noting_received = self._overriding("received")
        self._ids = {name: at for at, name in enumerate(model.cluster.transactional_ids)}
        self.view = View(self.machine, model)
        self._now = T0
        self._offers: Recent[tuple[int, type, Any], tuple[Send, ...]] = Recent(KNOWN_MAX)

    def _overriding(self, method: str) -> list[tuple[int, Invariant]]:
        """Return the invariants with a method of their own, and their numbers."""
        return [
            (number, invariant)
            for number, invariant in enumerate(self._invariants)
            if getattr(type(invariant), method) is not getattr(Invariant, method)
        ]

    # The first state

    def first(self) -> World:
        """Return the first state: topics and coordinators exist, no client has sent a request.

        Raises:
            ModelError: the cluster cannot be set up.
        """
        model, machine = self.model, self.machine
        self._now = T0
        state = machine.begin()
        machine.load(state)
        topics = model.cluster.topics
        between, machine.held.between = machine.held.between, frozenset()
        setup = checked_sends("setup", model.cluster.setup, self._settings.brokers)
        for send in (*setup_of(model), *setup):
            for _ in range(SETUP_TRIES):
                event = self._event(send, "setup", f"setup-{send.label}", -1)
                event.choices = Choices(topic_ids={name: topic_id(name) for name in topics})
                answers = machine.handle(event)
                codes = answers[0].codes if answers else frozenset()
                if codes <= {Error.NONE, Error.TOPIC_ALREADY_EXISTS}:
                    break
            else:
                raise ModelError(f"the setup request {send.api} returns {sorted(codes)}")
        machine.held.between = between
        state = machine.save()
        faults = model.faults
        left = (
            *(faults.late, faults.lost, faults.crashes, faults.waits, faults.stops, faults.kills),
            *(faults.isolations, faults.severed, faults.elections),
        )
        clients = tuple(ClientRun(client.start) for client in model.clients)
        ghosts = tuple(invariant.start for invariant in self._invariants)
        return World(state, clients, (), left, ghosts)

    # Fingerprints

    def fingerprint(self, world: World) -> int:
        """Return 64 bits that are equal for states with the same future."""
        found = [
            self._fingerprint(world, number, exchange)
            for number, exchange in enumerate(self._exchanges)
        ]
        return min(found)

    def _fingerprint(self, world: World, number: int, exchange: Sequence[tuple[str, str]]) -> int:
        clients = list(world.clients)
        for one, other in exchange:
            a, b = self._numbers[one], self._numbers[other]
            clients[a], clients[b] = clients[b], clients[a]
        try:
            kinds = [type(run.state).__name__ for run in clients]  # equal fields do not show them
            encoded = _encode((clients, kinds, world.left, world.ghosts))
        except TypeError as error:
            raise ModelError(f"a state or a ghost is not constant: {error}") from None
        text = _exchanged(encoded, exchange)
        late = [_exchanged(each.text, exchange) for each in world.late]
        if exchange:
            late.sort()
        digest = blake2b(b"".join((text, *late)), digest_size=8).digest()
        return (int.from_bytes(digest) + world.cell.numbers[number]) % 2**64

    def cell_fingerprint(self, world: World) -> int:
        """Return the fingerprint of the brokers' state alone, to compare searches."""
        return world.cell.numbers[0]

    # Steps

    def steps(self, world: World) -> list[Step]:
        """Return the steps that are possible in a state."""
        facts = self._facts_of(world.cell)
        steps: list[Step] = [*self._client_steps(world, facts.serving)]
        for number, each in enumerate(world.late):
            is_same = number > 0 and world.late[number - 1].text == each.text
            if not is_same and each.send.broker in facts.serving:
                steps.append(("arrive", number))
        steps += [("deliver", *way) for way, _ in world.cell.waiting]
        steps += self._fault_steps(world.left, facts)
        return steps

    def is_done(self, world: World) -> bool:
        """True if all clients have done what they wanted."""
        clients = self.model.clients
        return all(
            run.waiting is None and client.is_done(run.state)
            for client, run in zip(clients, world.clients, strict=True)
        )

    def sends(self, world: World, number: int) -> tuple[Send, ...]:
        """Return the requests that a client may send."""
        client, state = self.model.clients[number], world.clients[number].state
        key = number, type(state), state
        try:
            known = self._offers.get(key)
        except TypeError as error:
            raise ModelError(f"a state of {client.name} is not constant: {error}") from None
        if known is None:
            owner = f"{type(client).__name__}.sends"
            known = checked_sends(owner, client.sends(state), self._settings.brokers)
            self._offers.put(key, known)
        return known

    def _facts_of(self, cell: CellState) -> Facts:
        return self.machine.recalled(cell, "facts", lambda: self._read_facts(cell))

    def _read_facts(self, cell: CellState) -> Facts:
        self.view.begin(cell)
        table, places = self.machine.tables.cluster, self.view.places()
        stopped = [each for each in self._faulty if network.is_stopped(table, each)]
        return Facts(
            frozenset(b for b in self._settings.brokers if network.serves(table, b)),
            tuple(each for each in stopped if not network.is_starting(table, each)),
            frozenset(each for each in self._faulty if network.is_isolated(table, each)),
            tuple(place for place in places if self.view.leader(*place) < 0),
        )

    def _client_steps(self, world: World, serving: frozenset[int]) -> Iterator[Step]:
        left = world.left
        for number, run in enumerate(world.clients):
            if left[AT[Fault.CRASH]]:
                yield ("crash", number)
            if run.waiting is not None:
                is_sent = self.is_split and not run.waiting_id and run.response is None
                if is_sent and run.waiting.broker in serving:
                    yield ("handle", number)
                if run.response is not None:
                    yield ("receive", number)
                if run.waiting.may_be_late and self._may_give_up(run, left):
                    yield ("give-up", number)
                continue
            for at, send in enumerate(self.sends(world, number)):
                if self.is_split:
                    yield ("send", number, at)
                    continue
                if send.broker not in serving:
                    continue
                yield ("call", number, at)
                if send.may_be_late and left[AT[Fault.LATE]]:
                    yield ("late", number, at)
                if send.may_be_late and left[AT[Fault.LOST]]:
                    yield ("lost", number, at)

    def _may_give_up(self, run: ClientRun, left: tuple[int, ...]) -> bool:
        """True if a request without a response may be given up: late, or its response is lost."""
        if run.response is not None:
            return left[AT[Fault.LOST]] > 0
        if self.is_split and not run.waiting_id:
            return left[AT[Fault.LATE]] > 0
        return left[AT[Fault.LATE]] + left[AT[Fault.LOST]] > 0

    def _fault_steps(self, left: tuple[int, ...], facts: Facts) -> Iterator[Step]:
        if left[AT[Fault.WAIT]]:
            yield ("wait",)
        for broker in self._faulty:
            if broker in facts.may_start:
                yield (Fault.START, broker)
            if broker not in facts.serving:
                continue
            if left[AT[Fault.STOP]]:
                yield (Fault.STOP, broker)
            if left[AT[Fault.KILL]]:
                yield (Fault.KILL, broker)
            if broker in facts.isolated:
                yield (Fault.REJOIN, broker)
                continue
            if left[AT[Fault.ISOLATE]]:
                yield (Fault.ISOLATE, broker)
            if left[AT[Fault.SEVER]]:
                yield (Fault.SEVER, broker)
        if left[AT[Fault.ELECT]]:
            for place in facts.leaderless:
                yield (Fault.ELECT, *place)

    # Transitions

    def take(self, world: World, step: Step) -> World:
        """Return the state after a step."""
        self._now = world.cell.now
        kind = step[0]
        self.taken[kind] += 1
        if kind in ("call", "late", "lost"):
            return self._call(world, *step)
        if kind == "arrive":
            return self._arrive(world, step[1])
        if kind == "deliver":
            return self._deliver(world, step[1:])
        if kind == "crash":
            return self._crash(world, step[1])
        if kind == "give-up":
            return self._give_up(world, step[1])
        if kind == "wait":
            return self._wait(world)
        if kind in ("send", "handle", "receive"):
            return self._split(world, *step)
        return self._intervene(world, *step)

    def _call(self, world: World, fate: str, number: int, at: int) -> World:
        client, run = self.model.clients[number], world.clients[number]
        send = self.sends(world, number)[at]
        ghosts = self._sent(world.ghosts, client.name, send)
        producer_id, issued = self._producer_id(number, run, send)
        run = ClientRun(run.state, issued=issued)
        cell, clients, late, left, _ = world
        if fate == "late":
            late = _with_late(late, self._late(number, send, producer_id))
            self._note(Happening.GIVEN_UP, client.name, send, "is late; the client gives up")
            world = World(cell, clients, late, _spent(left, Fault.LATE), ghosts)
            return self._received(world, number, run, send, None)
        event_id = _free_id(cell, client.name)
        exchange = self._note(Happening.CALL, client.name, send)
        effect = self._request(cell, send, client.name, event_id, producer_id)
        if fate == "lost":
            self._answered(exchange, send, _own(effect, event_id), is_lost=True)
            world = World(cell, clients, late, _spent(left, Fault.LOST), ghosts)
            return self._answer(self._received(world, number, run, send, None), effect)
        run = ClientRun(run.state, send, event_id, issued=issued)
        world = World(cell, _with(clients, number, run), late, left, ghosts)
        return self._answer(world, effect, exchange)

    def _late(self, number: int, send: Send, producer_id: int) -> Late:
        text = _encode((self._names[number], send, producer_id))
        return Late(text, number, send, producer_id)

    def _answer(self, world: World, effect: Effect, exchange: Exchange | None = None) -> World:
        """Deliver responses to the clients that wait for them, and take the cell's state."""
        for answer in effect.answers:
            for number, run in enumerate(world.clients):
                send = run.waiting
                if send is None or run.waiting_id != answer.event_id:
                    continue
                body = answer.body
                self._answered(exchange, send, answer, number=number)
                if self.is_split:
                    run = run._replace(response=(body,), waiting_id="")
                    world = world._replace(clients=_with(world.clients, number, run))
                else:
                    world = self._received(world, number, run, send, body)
                break
        return World(effect.after, *world[1:])

    def _received(self, world: World, number: int, run: ClientRun, send: Send, body: Any) -> World:
        """Let a client take a response, or learn that none comes."""
        client = self.model.clients[number]
        state = client.receives(run.state, send, body)
        ghosts = list(world.ghosts)
        for at, invariant in self._noting_received:
            ghosts[at] = invariant.received(ghosts[at], client.name, send, body)
        cell, clients, late, left, _ = world
        is_refused = body is not None and self._takes_id(send) and bool(response_code(body))
        after = ClientRun(state, issued=run.issued - is_refused)
        return World(cell, _with(clients, number, after), late, left, tuple(ghosts))

    def _sent(self, ghosts: tuple[Any, ...], name: str, send: Send) -> tuple[Any, ...]:
        found = list(ghosts)
        for at, invariant in self._noting_sent:
            found[at] = invariant.sent(found[at], name, send)
        return tuple(found)

    def _arrive(self, world: World, at: int) -> World:
        late = world.late[at]
        name = self.model.clients[late.client].name
        world = world._replace(late=(*world.late[:at], *world.late[at + 1 :]))
        exchange = self._note(Happening.ARRIVAL, name, late.send, "arrives late")
        event_id = _free_id(world.cell, f"{name}~")
        effect = self._request(world.cell, late.send, f"{name}~", event_id, late.producer_id)
        self._answered(exchange, late.send, _own(effect, event_id))
        return self._answer(world, effect)

    def _deliver(self, world: World, way: tuple[str, int, int]) -> World:
        """Deliver the oldest message of a pair of machines."""
        step = dict(world.cell.waiting)[way][0]
        if self.is_traced:
            self.trace.append(_between(way, step))
        key = way, _encode(step)
        effect = self.machine.effect(
            world.cell, key, lambda: self._tick(self._now, step), released=way
        )
        return self._answer(world, effect)

    def _tick(self, time: int, step: Any = None) -> list[Answer]:
        event = Event(id="tick", cluster=CLUSTER, time=time, kind=Kind.TICK)
        return self.machine.handle(event, step)

    def _wait(self, world: World) -> World:
        wait_ms = self.model.faults.wait_ms
        self._tell(Happening.WAIT, "", "", f"{wait_ms} ms pass", wait_ms)
        world = world._replace(left=_spent(world.left, Fault.WAIT))
        time = self._now + wait_ms

        def act() -> Iterable[Answer]:
            pending = self.machine.tables.pending
            keys = pending.keys()
            assert all(key in pending for key in keys)  # notes them: each may have a deadline
            return self._tick(time)

        return self._answer(world, self.machine.effect(world.cell, (Fault.WAIT,), act))

    def _crash(self, world: World, number: int) -> World:
        client, run = self.model.clients[number], world.clients[number]
        self._tell(Happening.FAULT, client.name, client.name, "crashes and starts again")
        late = world.late
        is_sent = self.is_split and not run.waiting_id and run.response is None
        if run.waiting is not None and is_sent:
            late = _with_late(late, self._late(number, run.waiting, run.producer_id))
        ghosts = tuple(
            invariant.crashed(ghost, client.name)
            for invariant, ghost in zip(self._invariants, world.ghosts, strict=True)
        )
        after = ClientRun(client.restarts(run.state), issued=run.issued)
        return world._replace(
            clients=_with(world.clients, number, after),
            late=late,
            left=_spent(world.left, Fault.CRASH),
            ghosts=ghosts,
        )

    def _give_up(self, world: World, number: int) -> World:
        """Let a client give up a request without a response."""
        run = world.clients[number]
        send = run.waiting
        assert send is not None
        is_on_its_way = self.is_split and not run.waiting_id and run.response is None
        left = world.left
        if is_on_its_way:
            late = _with_late(world.late, self._late(number, send, run.producer_id))
            world = world._replace(late=late, left=_spent(left, Fault.LATE))
        else:
            fault = Fault.LOST if left[AT[Fault.LOST]] else Fault.LATE
            world = world._replace(left=_spent(left, fault))
        name = self.model.clients[number].name
        self._note(Happening.GIVEN_UP, name, send, "the client gives up waiting")
        return self._received(world, number, run, send, None)

    def _split(self, world: World, kind: str, number: int, at: int = 0) -> World:
        """Send, handle or receive as a step of its own."""
        client, run = self.model.clients[number], world.clients[number]
        if kind == "send":
            sent = self.sends(world, number)[at]
            producer_id, issued = self._producer_id(number, run, sent)
            run = run._replace(waiting=sent, producer_id=producer_id, issued=issued)
            ghosts = self._sent(world.ghosts, client.name, sent)
            return world._replace(clients=_with(world.clients, number, run), ghosts=ghosts)
        send = run.waiting
        assert send is not None
        if kind == "receive":
            assert run.response is not None
            return self._received(world, number, run, send, run.response[0])
        event_id = _free_id(world.cell, client.name)
        exchange = self._note(Happening.CALL, client.name, send)
        effect = self._request(world.cell, send, client.name, event_id, run.producer_id)
        run = run._replace(waiting_id=event_id)
        world = world._replace(clients=_with(world.clients, number, run))
        return self._answer(world, effect, exchange)

    def _intervene(self, world: World, fault: Fault, *where: Any) -> World:
        counted = fault not in (Fault.START, Fault.REJOIN)
        if counted:
            world = world._replace(left=_spent(world.left, fault))
        name = f"broker {where[0]}" if fault is not Fault.ELECT else "controller"
        text = FAULT_TEXTS[fault] if fault is not Fault.ELECT else "elects an unclean leader"
        self._tell(Happening.FAULT, name, name, text)
        if fault is Fault.ELECT:
            return self._elect(world, *where)
        broker = where[0]
        event = Event(
            id=f"{fault}-{broker}",
            cluster=CLUSTER,
            broker=broker,
            time=self._now,
            kind=KINDS[fault],
        )

        ways = dict(world.cell.waiting)
        dropped = _cut(world.cell.waiting, broker, fault)
        unread = [each for way in dropped for each in ways[way] if isinstance(each, MetadataRead)]

        def act() -> Iterable[Answer]:
            for read in unread:
                self._unread(broker, fault, read)
            answers = self.machine.handle(event)
            if fault is Fault.KILL and self.model.faults.loses_cache:
                self._lose_records(broker)
            return answers

        key = fault, broker, _encode([read.record for read in unread])
        effect = self.machine.effect(world.cell, key, act, dropped=frozenset(dropped))
        return self._answer(self._after_intervention(world, fault, broker), effect)

    def _lose_records(self, broker: int) -> None:
        """Truncate the logs of a crashed broker to their start."""
        tables = self.machine.tables
        for topic, partition in self.view.places():
            log = tables.logs.get(log_key(broker, topic_id(topic), partition), Log)
            if log is not None:
                record = LogTruncated(log.topic_id, partition, log.log_start_offset)
                apply(tables.of(broker), record)

    def _after_intervention(self, world: World, fault: Fault, broker: int) -> World:
        """Break the connections of clients to a stopped broker: their requests are lost."""
        if fault not in (Fault.STOP, Fault.KILL):
            return world
        for number, run in enumerate(world.clients):
            send = run.waiting
            if send is not None and send.broker == broker:
                world = self._received(world, number, run, send, None)
        late = tuple(each for each in world.late if each.send.broker != broker)
        return world._replace(late=late)

    def _unread(self, broker: int, fault: Fault, read: MetadataRead) -> None:
        """Keep metadata of a broken connection, which the broker reads later."""
        state = network._network(self.machine.tables.cluster)
        unread = state.unread if fault is Fault.SEVER else state.missed
        unread.setdefault(broker, []).append(read.record)

    def _elect(self, world: World, topic: str, partition: int) -> World:
        topics = [{"topic": topic, "partitions": [partition]}]
        body = {"electionType": 1, "topicPartitions": topics, "timeoutMs": 60_000}
        brokers = self._facts_of(world.cell).serving
        if not brokers:
            return world
        send = Send(api="ELECT_LEADERS", version=2, body=body, broker=min(brokers))
        return self._answer(world, self._request(world.cell, send, "admin", "admin", -1))

    # Requests

    def _request(
        self, cell: CellState, send: Send, client: str, event_id: str, producer_id: int
    ) -> Effect:
        """Let a broker decide on a request."""
        what = send, client, event_id, producer_id
        key = _encode(what)
        return self.machine.effect(cell, key, lambda: self.machine.handle(self._event(*what)))

    def _event(self, send: Send, client: str, event_id: str, producer_id: int) -> Event:
        header = RequestHeader(API_KEYS[send.api], send.version, 1, client)
        return Event(
            id=event_id,
            cluster=CLUSTER,
            broker=send.broker,
            time=self._now,
            connection=client,
            nonce=send.nonce or client,
            request_header=header,
            request=send.body,  # type: ignore[arg-type]
            choices=Choices(
                producer_id=producer_id if producer_id >= 0 else None, topic_ids=INTERNAL_IDS
            ),
        )

    def _producer_id(self, number: int, run: ClientRun, send: Send) -> tuple[int, int]:
        """Return the producer id for InitProducerId, and how many the client has then had."""
        if self._takes_id(send):
            base = TRANSACTIONAL_IDS_MAX + number * IDS_OF_CLIENT
            return base + run.issued, run.issued + 1
        if send.api != "INIT_PRODUCER_ID" or send.producer_id >= 0:
            return send.producer_id, run.issued
        return self._ids[send.body["transactionalId"]], run.issued

    def _takes_id(self, send: Send) -> bool:
        """True if a request takes the next producer id of its client, unless it is refused."""
        return (
            send.api == "INIT_PRODUCER_ID"
            and send.producer_id < 0
            and send.body.get("transactionalId") not in self._ids
        )

    # Traces and coverage

    def _note(self, kind: Happening, name: str, send: Send, note: str = "") -> Exchange | None:
        if not self.is_traced:
            return None
        text = send.label or send.api
        exchange = Exchange(kind, name, f"broker {send.broker}", text, note=note, send=send)
        self.trace.append(exchange)
        return exchange

    def _answered(
        self,
        exchange: Exchange | None,
        send: Send,
        answer: Answer | None,
        number: int = -1,
        is_lost: bool = False,
    ) -> None:
        for code in answer.codes if answer is not None else ():
            self.answered[send.api, code] += 1
        if not self.is_traced:
            return
        body = answer.body if answer is not None else None
        text = response_text(body)
        name = self.model.clients[number].name if number >= 0 else ""
        if exchange is not None and exchange.send is send and name in ("", exchange.sender):
            exchange.response, exchange.body, exchange.is_lost = text, body, is_lost
            return
        label = send.label or send.api
        self.trace.append(
            Exchange(Happening.RESPONSE, f"broker {send.broker}", name, label, text, "", send, body)
        )

    def _tell(
        self, kind: Happening, sender: str, receiver: str, text: str, wait_ms: int = 0
    ) -> None:
        if self.is_traced:
            self.trace.append(Exchange(kind, sender, receiver, text, wait_ms=wait_ms))

    # Invariants

    def violation(self, world: World) -> str | None:
        """Return the name of the first violated invariant and its text."""
        cell = world.cell
        for number, ghost in enumerate(world.ghosts):
            invariant = self._invariants[number]
            try:
                hash(ghost)
            except TypeError as error:
                raise ModelError(f"a ghost of {invariant.name} is not constant: {error}") from None
            key = "verdict", number, ghost, cell.broken, bool(cell.waiting)
            read = partial(self._verdict, cell, invariant, ghost)
            try:
                text = self.machine.recalled(cell, key, read)
            except UnsteadyError:
                reason = "depends on more than its arguments"
                raise ModelError(f"{invariant.name}.check {reason}") from None
            if text:
                return f"{invariant.name}: {text}"
        return None

    def _verdict(self, cell: CellState, invariant: Invariant, ghost: Any) -> str:
        self.view.begin(cell)
        text = invariant.check(ghost, self.view)
        if text is not None and not isinstance(text, str):
            raise ModelError(
                f"{invariant.name}.check returns {text!r}, neither a sentence nor None"
            )
        return text or ""


def _cut(waiting: Waiting, broker: int, fault: Fault) -> list[Way]:
    """Return the ways of a broker whose connections end."""
    kinds: dict[Fault, tuple[Between, ...]] = {
        Fault.STOP: tuple(Between),
        Fault.KILL: tuple(Between),
        Fault.ISOLATE: (Between.REPLICA,),
        Fault.SEVER: (Between.REPLICA, Between.METADATA),
    }
    return [way for way, _ in waiting if way[0] in kinds.get(fault, ()) and broker in way[1:]]


def _free_id(cell: CellState, name: str) -> str:
    waiting, number = cell.tables["pending"], 1
    while waiting and any(f"{kind}{name}{number}" in waiting for kind in (REQUEST_KEY, COMMIT_KEY)):
        number += 1
    return f"{name}{number}"


def _own(effect: Effect, event_id: str) -> Answer | None:
    """Return the response to a request."""
    return next((each for each in effect.answers if each.event_id == event_id), None)


def setup_of(model: Model) -> Iterator[Send]:
    """Return the requests that make the topics and the coordinators of a model."""
    cluster = model.cluster
    replicas = cluster.replicas or min(cluster.brokers, 3)
    configs = [{"name": name, "value": value} for name, value in cluster.topic_configs.items()]
    if cluster.topics:
        topics = [
            {
                "name": name,
                "numPartitions": -1,
                "replicationFactor": -1,
                "assignments": [
                    {"partitionIndex": at, "brokerIds": _replicas(at, cluster.brokers, replicas)}
                    for at in range(count)
                ],
                "configs": configs,
            }
            for name, count in cluster.topics.items()
        ]
        body = {"topics": topics, "timeoutMs": 10_000}
        yield Send(api="CREATE_TOPICS", version=7, body=body, label="topics", nonce="setup")
    for key, name in (
        *((0, group) for group in cluster.groups),
        *((1, each) for each in cluster.transactional_ids),
    ):
        body = {"key": name, "keyType": key}
        yield Send(api="FIND_COORDINATOR", version=2, body=body, label=name, nonce=name)
    for broker in range(1, cluster.brokers + 1):
        body = {"transactionalId": None, "transactionTimeoutMs": 1_000}
        yield Send(
            api="INIT_PRODUCER_ID", version=2, body=body, label=f"block-{broker}", broker=broker
        )


def _replicas(partition: int, brokers: int, replicas: int) -> list[int]:
    """Return the replicas of a partition; its first one leads."""
    return [(partition + at) % brokers + 1 for at in range(replicas)]


def _exchanges(model: Model) -> list[tuple[tuple[str, str], ...]]:
    """Return all ways to exchange symmetric clients, each as pairs of names; the first is none."""
    choices = []
    for names in model.symmetric:
        if len({len(name) for name in names}) > 1 or len(names[0]) < SYMMETRIC_NAME_MIN:
            raise ModelError(
                f"the symmetric names {', '.join(names)} must have equal lengths, of at least"
                f" {SYMMETRIC_NAME_MIN} characters, because they are exchanged in encoded items"
            )
        choices.append([_transpositions(names, order) for order in permutations(names)])
    return [tuple(pair for pairs in each for pair in pairs) for each in product(*choices)]


def _transpositions(names: Sequence[str], order: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return exchanges that lead from one order to another."""
    current, found = list(names), []
    for at, wanted in enumerate(order):
        if current[at] != wanted:
            found.append((current[at], wanted))
            other = current.index(wanted)
            current[at], current[other] = current[other], current[at]
    return tuple(found)


def _with(clients: tuple[ClientRun, ...], number: int, run: ClientRun) -> tuple[ClientRun, ...]:
    return (*clients[:number], run, *clients[number + 1 :])


def _with_late(late: tuple[Late, ...], added: Late) -> tuple[Late, ...]:
    return tuple(sorted((*late, added)))


def _exchanged(text: bytes, exchange: Sequence[tuple[str, str]]) -> bytes:
    for one, other in exchange:
        text = exchanged_bytes(text, one.encode(), other.encode())
    return text


def _spent(left: tuple[int, ...], fault: Fault) -> tuple[int, ...]:
    at = AT[fault]
    return (*left[:at], left[at] - 1, *left[at + 1 :])


def response_text(body: Any) -> str:
    """Return a response in a few words: its errors, and ids that it assigns."""
    if body is None:
        return "no response"
    codes = sorted(set(error_codes(body)))
    text = ", ".join(f"{code} {Error(code).name}" for code in codes) or "0 NONE"
    shown = {
        "producer_id": "producer",
        "producer_epoch": "epoch",
        "generation_id": "generation",
        "member_epoch": "member epoch",
    }
    parts = [
        f"{word} {value}"
        for name, word in shown.items()
        if isinstance(value := getattr(body, name, None), int) and value >= 0
    ]
    parts += [
        f"offset {each.committed_offset}"
        for topic in getattr(body, "topics", None) or ()
        for each in getattr(topic, "partitions", None) or ()
        if hasattr(each, "committed_offset")
    ]
    return ", ".join([text, *parts])


def _between(way: tuple[str, int, int], step: Any) -> Exchange:
    """Return a message between machines, for a trace."""
    names = ["controller" if each == CONTROLLER else f"broker {each}" for each in way[1:]]
    if isinstance(step, MetadataRead):
        text = f"metadata: {type(step.record).__name__} {_fields(step.record)}"
    elif isinstance(step, Message):
        text = api_of_key(step.api_key).name
    elif isinstance(step, ReplicaFetch):
        text = "fetch from " + ", ".join(str(each.fetch_offset) for each in step.partitions)
    else:
        text = f"{type(step).__name__} {_replica_text(step)}"
    return Exchange(Happening.BETWEEN, names[0], names[1], text)


def _replica_text(step: Any) -> str:
    return (
        ", ".join(
            f"{len(each.batches)} batches, HW {each.high_watermark}" for each in step.partitions
        )
        if hasattr(step, "partitions") and hasattr(step.partitions[0], "batches")
        else ""
    )


def _fields(record: Any) -> str:
    shown = ("partition", "leader", "isr")
    return " ".join(
        f"{name} {getattr(record, name)}"
        for name in shown
        if getattr(record, name, None) is not None
    )
