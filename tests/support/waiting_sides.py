"""A real broker and ours, asked for what waits until other members have done their part.

Each member of a group has its own connection at both. A real broker draws an id for who comes
without one, and ours takes it over: which member is the first of a Java hash map is then the same.
"""

from collections.abc import Iterator

from brokertwin.gateway.protocol.frames import decode_response
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from tests.support.classic_walks import WAITING, ClassicWalk
from tests.support.gateways import Client
from tests.support.patience import wait_until
from tests.support.walk_sides import Body, Side, Sides, Step

_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}
GHOST = {"memberId": "nobody", "generationId": 1}
WITHOUT = ("Dead", "Empty")
"""States of groups without members."""

NOBODY: Body = {"groupState": "Dead", "members": []}


class WaitingSide:
    """One broker, and the requests of one walk that wait there.

    Attributes:
        asked: requests by place that are not answered.
        come: answers by place that have come, with their requests.
        group: the walk's group, as it was last described.
    """

    def __init__(self, side: Side, walk: ClassicWalk) -> None:
        self.side = side
        self._walk = walk
        self._connections: dict[str, Client] = {}
        self.asked: dict[str, Step] = {}
        self.come: dict[str, tuple[Step, Body]] = {}
        self.group = NOBODY

    def send(self, place: str, step: Step) -> None:
        """Asks, by the place's connection."""
        if place not in self._connections:
            self._connections[place] = self.side.connection()
        self._connections[place].send(step.api, step.version, step.body)
        self.asked[place] = step

    def look(self) -> None:
        """Describes the group as it is after all that was sent before, and takes what has come.

        A heartbeat of nobody goes through the same queue: when it is answered, what was sent is
        done. The question before it sees to it that the broker has read what came before by other
        connections.
        """
        self.side.answer(Step("API_VERSIONS", 0, {}), [])
        self.side.answer(Step("HEARTBEAT", 0, {"groupId": self._walk.group, **GHOST}), [])
        asked = {"groups": [self._walk.group], "includeAuthorizedOperations": False}
        (self.group,) = self.side.answer(Step("DESCRIBE_GROUPS", 6, asked), [])["groups"]
        for place, connection in self._connections.items():
            if place in self.asked and connection.has_something():
                step = self.asked.pop(place)
                _, told = decode_response(_KEYS[step.api], step.version, connection.receive())
                self.come[place] = step, told

    def is_to_answer(self) -> bool:
        """Whether all members wait in a join, which is then over."""
        joins = {
            step.body["memberId"] or place
            for place, step in self.asked.items()
            if step.api == "JOIN_GROUP"
        }
        return len(joins) == len(self.group["members"]) and not self._walk.given

    def close(self) -> None:
        """The members' connections end."""
        for each in self._connections.values():
            each.close()


class WaitingSides:
    """Both, in one walk.

    Args:
        sides: a real broker and ours.
        walk: what is asked.
    """

    def __init__(self, sides: Sides, walk: ClassicWalk) -> None:
        self._ours = WaitingSide(sides.ours, walk)
        self._real = WaitingSide(sides.real, walk)
        self._walk = walk

    def walked(self, seed: int, steps: int) -> Iterator[tuple[Step, Body]]:
        """Each answer with its request, the same on both sides; those that waited as well."""
        for at in range(steps):
            place, step = self._walk.next(self._real.group, self._ours.asked)
            what = f"seed {seed}, step {at}: {place} {step}"
            is_first = step.api == "JOIN_GROUP" and self._real.group["groupState"] in WITHOUT
            if step.api in WAITING:
                self._send(place, step)
            else:
                ours, theirs = (
                    each.side.answer(step, self._walk.groups) for each in (self._ours, self._real)
                )
                assert ours == theirs, what
                self._walk.hear_of(place, step, theirs)
                yield step, theirs
            yield from self._answers(what, is_first)
        self._ours.close()
        self._real.close()

    def _send(self, place: str, step: Step) -> None:
        before = {each["memberId"] for each in self._real.group["members"]}
        self._real.send(place, step)
        drawn: set[str] = set()

        def is_drawn() -> bool:
            self._real.look()
            drawn.update({each["memberId"] for each in self._real.group["members"]} - before)
            return bool(drawn) or place in self._real.come

        if step.api == "JOIN_GROUP" and not step.body["memberId"]:
            wait_until(is_drawn)
            told = [self._real.come[place][1]["memberId"]] if place in self._real.come else []
            (self._ours.side.choices["memberId"],) = told or drawn
        self._ours.send(place, step)

    def _answers(self, what: str, is_first: bool) -> Iterator[tuple[Step, Body]]:
        """What has been answered, once nothing more happens by itself."""

        def is_quiet() -> bool:
            ours, real = self._ours, self._real
            ours.look()
            real.look()
            if ours.group != real.group or ours.come.keys() != real.come.keys():
                return False
            is_joining = real.group["groupState"] == "PreparingRebalance"
            if is_joining and (is_first or real.is_to_answer()):
                return False
            return bool(real.come) or self._walk.is_over(real.group, real.asked)

        while True:
            wait_until(is_quiet, what)
            if not self._real.come:
                return
            for place in sorted(self._real.come):
                step, theirs = self._real.come.pop(place)
                _, ours = self._ours.come.pop(place)
                assert ours == theirs, f"{what}: {place} {step}\n  ours  {ours}\n  kafka {theirs}"
                self._walk.hear_of(place, step, theirs)
                yield step, theirs
