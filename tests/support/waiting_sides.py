"""Compare requests that wait for other members with a real broker's.

Each member of a group has its own connection to both brokers. A real broker draws an id for a
member that joins without one, and ours takes it over: the first member of a Java hash map is then
the same. A recording has the states in which nothing more happens by itself. During a replay our
clock moves only until our broker is in the recorded state.
"""

import time
from collections.abc import Iterator

from brokertwin.protocol.frames import decode_response
from brokertwin.protocol.kafka_apis import API_KEYS
from tests.support.classic_walks import WAITING, ClassicWalk
from tests.support.gateways import Client
from tests.support.goldens import IS_LIVE
from tests.support.patience import wait_until
from tests.support.stepped_clock import SteppedClock
from tests.support.walk_sides import Body, Side, Sides, Step

GHOST = {"memberId": "nobody", "generationId": 1}
WITHOUT = ("Dead", "Empty")
"""States of groups without members."""

NOBODY: Body = {"groupState": "Dead", "members": []}
STEP_MS, LOOKS = 50, 400
"""How much of our time passes after a look, and how often a replay looks at most."""

LOOKS_BEFORE_STEP, LOOK_PAUSE_S = 10, 0.005
"""Our broker gets this many looks before its time passes: a response may still be on its way, and
sessions of 150 ms must not expire for that."""

Quiet = tuple[Body, dict[str, Body], int]
"""The group, the responses that have come by place, and how many phases have ended with time."""


class WaitingSide:
    """One broker, and the requests of one walk that wait there.

    Attributes:
        requested: requests by place without a response.
        come: answers by place that have come, with their requests.
        group: the walk's group, as it was last described.
    """

    def __init__(self, side: Side, walk: ClassicWalk) -> None:
        self.side = side
        self._walk = walk
        self._connections: dict[str, Client] = {}
        self._looking: Client | None = None
        self.requested: dict[str, Step] = {}
        self.come: dict[str, tuple[Step, Body]] = {}
        self.group = NOBODY

    def send(self, place: str, step: Step) -> None:
        """Asks, by the place's connection."""
        if place not in self._connections:
            self._connections[place] = self.side.direct()
        self._connections[place].send(step.api, step.version, step.body)
        self.requested[place] = step

    def look(self) -> None:
        """Describe the group after all earlier requests, and take the received responses.

        A real broker's heartbeat of an unknown member goes through the same queue: when it is
        answered, the requests before it are done. ApiVersions makes sure that the broker has read
        the earlier requests of other connections.
        """
        looking = self._looking = self._looking or self.side.direct()
        looking.call("API_VERSIONS", 0, {})
        if IS_LIVE:
            looking.call("HEARTBEAT", 0, GHOST, groupId=self._walk.group)
        step = Step("DESCRIBE_GROUPS", 6, {"groups": [self._walk.group]})
        response = looking.call(step.api, step.version, step.body)
        (self.group,) = self.side.shown(step, response, [])["groups"]
        for place, connection in self._connections.items():
            if place in self.requested and connection.has_something():
                step = self.requested.pop(place)
                _, response = decode_response(
                    API_KEYS[step.api], step.version, connection.receive()
                )
                self.come[place] = step, response

    def is_to_respond(self) -> bool:
        joins = {
            step.body["memberId"] or place
            for place, step in self.requested.items()
            if step.api == "JOIN_GROUP"
        }
        return len(joins) == len(self.group["members"]) and not self._walk.given

    def close(self) -> None:
        for each in self._connections.values():
            each.close()


class WaitingSides:
    """A real broker and ours in one walk.

    Args:
        sides: a real broker and ours.
        walk: draws the requests.
        clock: our broker's clock during a replay.
    """

    def __init__(self, sides: Sides, walk: ClassicWalk, clock: SteppedClock) -> None:
        self._ours = WaitingSide(sides.ours, walk)
        self._real = WaitingSide(sides.real, walk)
        self._walk = walk
        self._clock = clock
        assert sides.real.tape is not None
        self._tape = sides.real.tape

    def walked(self, seed: int, steps: int) -> Iterator[tuple[Step, Body]]:
        """Yield each request with its response, the same from both brokers."""
        for at in range(steps):
            place, step = self._walk.next(self._real.group, self._ours.requested)
            what = f"seed {seed}, step {at}: {place} {step}"
            is_first = step.api == "JOIN_GROUP" and self._real.group["groupState"] in WITHOUT
            if step.api in WAITING:
                self._send(place, step)
            else:
                ours, theirs = (
                    each.side.response(step, self._walk.groups) for each in (self._ours, self._real)
                )
                assert ours == theirs, what
                self._walk.observe_at(place, step, theirs)
                yield step, theirs
            yield from self._responses(what, is_first)
        self._ours.close()
        self._real.close()

    def _send(self, place: str, step: Step) -> None:
        drawn = self._tape.response(["sent", place, *step], lambda: self._sent(place, step))
        if drawn is not None:
            self._ours.side.choices["memberId"] = drawn
        self._ours.send(place, step)

    def _sent(self, place: str, step: Step) -> str | None:
        """Send a request to the real broker and return the member id that it draws."""
        before = {each["memberId"] for each in self._real.group["members"]}
        self._real.send(place, step)
        if step.api != "JOIN_GROUP" or step.body["memberId"]:
            return None
        drawn: set[str] = set()

        def is_drawn() -> bool:
            self._real.look()
            drawn.update({each["memberId"] for each in self._real.group["members"]} - before)
            return bool(drawn) or place in self._real.come

        wait_until(is_drawn)
        reported = [self._real.come[place][1]["memberId"]] if place in self._real.come else []
        (found,) = reported or drawn
        return str(found)

    def _responses(self, what: str, is_first: bool) -> Iterator[tuple[Step, Body]]:
        """Yield the responses received once nothing more happens by itself."""
        while True:
            self._real.group, come, self._walk.short_phases = self._tape.response(
                ["quiet", what], lambda: self._quiet(what, is_first)
            )
            if not IS_LIVE:
                assert any(self._is_as(come) for _ in range(LOOKS)), what
            if not come:
                return
            for place, theirs in sorted(come.items()):
                step, ours = self._ours.come.pop(place)
                assert ours == theirs, f"{what}: {place} {step}\n  ours  {ours}\n  kafka {theirs}"
                self._walk.observe_at(place, step, theirs)
                yield step, theirs

    def _quiet(self, what: str, is_first: bool) -> Quiet:
        """Wait until both brokers are in the same state, and nothing more happens by itself."""
        ours, real = self._ours, self._real

        def is_quiet() -> bool:
            ours.look()
            real.look()
            if ours.group != real.group or ours.come.keys() != real.come.keys():
                return False
            is_joining = real.group["groupState"] == "PreparingRebalance"
            if is_joining and (is_first or real.is_to_respond()):
                return False
            return bool(real.come) or self._walk.is_over(real.group, real.requested)

        wait_until(is_quiet, what)
        come = {place: reported for place, (_, reported) in real.come.items()}
        real.come.clear()
        return real.group, come, self._walk.short_phases

    def _is_as(self, come: dict[str, Body]) -> bool:
        """Look at our broker; let its time pass if it does not come to the recorded state."""
        for _ in range(LOOKS_BEFORE_STEP):
            self._ours.look()
            if self._ours.group == self._real.group and self._ours.come.keys() == come.keys():
                return True
            time.sleep(LOOK_PAUSE_S)
        self._clock.now += STEP_MS
        return False
