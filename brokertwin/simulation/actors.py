"""A client and its application in virtual time, woken when there is work.

Each turn runs the application (`_work`), then the client. Network events wake the actor at once. A
paused actor does nothing while its connections stay open; a crashed one is gone.
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
from brokertwin.simulation.plan import ClientPlan, FaultKind, RunPlan, pick
from brokertwin.simulation.sockets import FIRST_PORT, Sockets

REQUEST_MS = 2_500
"""`request.timeout.ms` of every client."""


class ActorContext:
    """Environment of an actor: clock, brokers, auditor and plan of the run.

    Also has the contents of records, and files, for applications that need them.
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
        """Return a random generator for one client, independent of all others."""
        return Random(f"{self.plan.seed}/{name}")


class ActorDriver:
    """Drives one client on its connections; received data is processed first.

    Work that results from it is done in the same turn. A real driver (`clients/driver.py`) waits
    for data after sending, and turns again at once.
    """

    def __init__(self, client: ClientLoop, sockets: Sockets, clock: VirtualClock) -> None:
        self._client = client
        self._sockets = sockets
        self._clock = clock

    def turn(self, timeout_ms: int) -> None:
        """Process received events and send due requests."""
        for event in self._sockets.take():
            self._client.take(self._clock.now, event)
        turn = self._client.turn(self._clock.now)
        for action in turn.actions:
            self._sockets.do(action)
        self._sockets.wait_ms = min(timeout_ms, turn.timeout_ms)


class Actor(ABC):
    """One client.

    Attributes:
        plan: its part of the plan.
        name: unique name; a new instance has another one.
        is_ending: whether it starts no new work.
        is_paused: whether it does nothing.
        is_stalled: whether its application does nothing, but its client does.
        is_closing: whether its client ends its work, and then is gone.
        is_gone: whether it has crashed or was closed.
    """

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        self.place = place
        self.plan = plan
        self.name = name
        self.is_ending = self.is_paused = self.is_gone = False
        self.is_stalled = self.is_closing = False
        self.chance = place.chance(name)
        self.sockets = self.sockets_of(name, is_read_committed=plan.is_read_committed)
        self._wake_at = -1

    @abstractmethod
    def _work(self, now: int) -> int:
        """Run the application; return the time until its next call in ms."""

    @abstractmethod
    def _turn(self) -> int:
        """Run the client; return the time until its next turn in ms."""

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """True if all work it has started is finished."""

    @property
    def all_sockets(self) -> list[Sockets]:
        return [self.sockets]

    def exposed(self, whom: float) -> Sockets:
        """Return the connections to which a network fault applies, chosen by a number in [0, 1)."""
        return self.all_sockets[-1]

    @property
    def is_over(self) -> bool:
        """True if it has failed permanently and must be replaced."""
        return False

    @property
    def may_stall(self) -> bool:
        """True if the application may hang now."""
        return True

    def wake(self) -> None:
        self._wake(self.place.clock.now)

    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        if not is_paused:
            self.wake()

    def close(self) -> None:
        """Close the client as its application does; one without a group just ends."""
        self.crash()

    def crash(self) -> None:
        """Crash without notice to any broker."""
        self.is_gone = True
        for each in self.all_sockets:
            each.close()

    def sockets_of(self, name: str, *, is_read_committed: bool = False) -> Sockets:
        """Create connections for one of its clients."""
        place = self.place
        user = self.plan.name if place.plan.has(FaultKind.DENY) else ""
        sockets = Sockets(
            name, place.edge, place.auditor, self.wake, user, is_read_committed=is_read_committed
        )
        sockets.is_old = self.plan.is_old
        return sockets

    def reading_sockets_of(self, name: str, *, is_read_committed: bool = False) -> Sockets:
        """Same as `sockets_of`, with the contents of records."""
        sockets = self.sockets_of(name, is_read_committed=is_read_committed)
        sockets.read = self.place.contents.read
        return sockets

    def driver_of(self, client: ClientLoop, sockets: Sockets) -> ActorDriver:
        brokers = range(1, self.place.plan.brokers + 1)
        addresses = [("localhost", FIRST_PORT + broker) for broker in brokers]
        client.metadata.bootstrap(addresses, self.place.clock.now)
        return ActorDriver(client, sockets, self.place.clock)

    def draw(self, what: str) -> Draw:
        return self.place.chance(f"{self.name}/{what}").random

    def _wake(self, time: int) -> None:
        """Schedule a turn, unless an earlier one is scheduled."""
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
        is_idle = self.is_stalled or self.is_closing
        pause = REQUEST_MS if is_idle else self._work(now)
        self._wake(now + max(min(pause, self._turn()), 1))
        if self.is_closing and self.is_closed:
            self.crash()

    @property
    def is_closed(self) -> bool:
        return True


class ApplicationActor(Actor):
    """A worker or thread of an application, with several clients."""

    def exposed(self, whom: float) -> Sockets:
        return pick(self.all_sockets, whom * 13 % 1) or self.sockets

    def crash(self) -> None:
        """Crash; its tasks lose their owner."""
        super().crash()
        self.place.auditor.work.crashed(self.name)
