"""A client with its application, in virtual time: it is woken when it has something to do.

An application does its part (`_work`), then the client its turn; what comes wakes it at once. One
that is paused does nothing, and its connections go on without it; one that has crashed is gone.
"""

from abc import ABC, abstractmethod
from random import Random

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.network import Draw
from brokertwin.simulation.auditor import Auditor
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.contents import Contents
from brokertwin.simulation.edge import BrokerEdge
from brokertwin.simulation.files import Files
from brokertwin.simulation.plan import ClientPlan, FaultKind, RunPlan
from brokertwin.simulation.sockets import FIRST_PORT, Sockets

REQUEST_MS = 2_500
"""`request.timeout.ms` of every client."""


class ActorContext:
    """Where an actor lives: the clock, the brokers' end, who audits, and the run's plan.

    What records say, and files, are there for applications that need them.
    """

    def __init__(
        self, plan: RunPlan, clock: VirtualClock, edge: BrokerEdge, auditor: Auditor
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.edge = edge
        self.auditor = auditor
        self.contents = Contents()
        self.files = Files(plan.active_ms)

    def chance(self, name: str) -> Random:
        """The chance of one client alone: what others do does not change it."""
        return Random(f"{self.plan.seed}/{name}")


class ActorDriver:
    """One client on its connections: what has come is taken first.

    So what that gives to do is done in the same turn. A real driver (`clients/driver.py`) waits for
    what comes after it has sent, and is turned again at once.
    """

    def __init__(self, client: ClientLoop, sockets: Sockets, clock: VirtualClock) -> None:
        self._client = client
        self._sockets = sockets
        self._clock = clock

    def turn(self, timeout_ms: int) -> None:
        """Takes what has come, and sends what is due; its sockets know when to turn again."""
        for event in self._sockets.take():
            self._client.take(self._clock.now, event)
        turn = self._client.turn(self._clock.now)
        for action in turn.actions:
            self._sockets.do(action)
        self._sockets.wait_ms = min(timeout_ms, turn.timeout_ms)


class Actor(ABC):
    """One client.

    Attributes:
        plan: what it is to be.
        name: its own; another instance that takes its place has another.
        is_ending: whether it has no new work; it brings to an end what it has.
        is_paused: whether it does nothing.
        is_gone: whether it has crashed, or was closed.
    """

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        self.place = place
        self.plan = plan
        self.name = name
        self.is_ending = self.is_paused = self.is_gone = False
        self.chance = place.chance(name)
        self.sockets = self.sockets_of(name, is_read_committed=plan.is_read_committed)
        self._wake_at = -1

    @abstractmethod
    def _work(self, now: int) -> int:
        """What the application does; when it wants to be called again, in ms from now."""

    @abstractmethod
    def _turn(self) -> int:
        """The client's turn; when it wants the next one, in ms from now."""

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether nothing that it has begun is without its end."""

    @property
    def all_sockets(self) -> list[Sockets]:
        """Its connections, of each of its clients."""
        return [self.sockets]

    def exposed(self, whom: float) -> Sockets:
        """The connections that a fault of the network befalls, by a number in [0, 1)."""
        return self.all_sockets[-1]

    @property
    def is_over(self) -> bool:
        """Whether it can do nothing any more: another instance has to take its place."""
        return False

    def wake(self) -> None:
        """It has something to do now."""
        self._wake(self.place.clock.now)

    def pause(self, is_paused: bool) -> None:
        """From here on it does nothing, or goes on where it was."""
        self.is_paused = is_paused
        if not is_paused:
            self.wake()

    def crash(self) -> None:
        """It is gone; nobody is told."""
        self.is_gone = True
        for each in self.all_sockets:
            each.close()

    def sockets_of(self, name: str, *, is_read_committed: bool = False) -> Sockets:
        """Connections of a client of it."""
        place = self.place
        user = self.plan.name if place.plan.has(FaultKind.DENY) else ""
        return Sockets(
            name, place.edge, place.auditor, self.wake, user, is_read_committed=is_read_committed
        )

    def reading_sockets_of(self, name: str, *, is_read_committed: bool = False) -> Sockets:
        """The same; it reads what records say."""
        sockets = self.sockets_of(name, is_read_committed=is_read_committed)
        sockets.read = self.place.contents.read
        return sockets

    def driver_of(self, client: ClientLoop, sockets: Sockets) -> ActorDriver:
        """What drives a client of it on some connections."""
        brokers = range(1, self.place.plan.brokers + 1)
        addresses = [("localhost", FIRST_PORT + broker) for broker in brokers]
        client.metadata.bootstrap(addresses, self.place.clock.now)
        return ActorDriver(client, sockets, self.place.clock)

    def draw(self, what: str) -> Draw:
        """Chance of its own for something."""
        return self.place.chance(f"{self.name}/{what}").random

    def _wake(self, time: int) -> None:
        """Wakes it then, where nothing does before."""
        if self._wake_at < 0 or time < self._wake_at:
            self._wake_at = time
            self.place.clock.at(time, lambda: self._awake(time))

    def _awake(self, time: int) -> None:
        if time != self._wake_at:
            return
        self._wake_at = -1
        if self.is_paused or self.is_gone:
            return
        now = self.place.clock.now
        pause = self._work(now)
        self._wake(now + max(min(pause, self._turn()), 1))
