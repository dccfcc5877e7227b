"""Random requests of members of classic groups, most of them right.

A walk continues from the responses, like those of consumer groups (`group_walks.py`). Some members
are static, two of them with one instance id. Some are silent once they are members, and their
sessions are short. In a hasty walk only the first member, if it is static, makes others wait for
long. When it has returned or left, the phases of a rebalance end with their timeouts.
"""

import base64
from collections.abc import Collection, Mapping
from typing import Any

from tests.support.group_walks import TIMEOUT_MS, Walk
from tests.support.walk_sides import Body, Step

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1"}
STATIC = {"s1": "i1", "s2": "i1", "s3": "i2"}
"""Instance ids; a member with the same id replaces the previous one."""
PLACES = ("d1", "d1", "d2", "d2", "d3", "s1", "s1", "s2", "s3", "s3")
SHORT_MS = 150
"""A session or a phase that is to end; all others outlast the walk."""
MEMBER_ID_REQUIRED_SINCE = 4
MEMBER_ID_REQUIRED = 79
GONE = (25, 82)
WALKED = "AAAAAAABAAZ3YWxrZWT/////"
"""The subscription to the topic `walked`, in base64."""
CUT = base64.b64encode(base64.b64decode(WALKED)[:-4]).decode()
UNREADABLE = ("", base64.b64encode(b"x").decode(), CUT)
WAITING = ("JOIN_GROUP", "SYNC_GROUP")
"""Responses that arrive when other members have acted."""
SETTLED = {"Empty", "Stable", "Dead"}


class ClassicWalk(Walk):
    """Requests of one walk to one group; each member has its own connection.

    Attributes:
        ids: assigned member ids by place.
        given: ids of members that have not joined with them yet and may have left.
        doomed: ids of members whose sessions end.
        is_hasty: whether phases end with their time.
        short_phases: how many have, or runs of them.
    """

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed, name)
        self.group = self.groups[0]
        self.ids: dict[str, str] = {}
        self.given: set[str] = set()
        self.doomed: set[str] = set()
        self.is_hasty = seed % 5 == 4
        self._timeouts: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._leading: dict[str, list[str]] = {}
        self._short: set[str] = set()
        self._phase = "", True
        self.short_phases = 0
        self._there: set[str] = set()
        self._free: list[str] = []

    def next(self, group: Body, waiting: Collection[str]) -> tuple[str, Step]:
        """The next request and its member's place; not of those whose requests wait."""
        state = group["groupState"]
        self._there = {each["groupInstanceId"] for each in group["members"]}
        self._free = [member for each, member in self.ids.items() if each not in waiting]
        place = self._one(*[each for each in PLACES if each not in waiting])
        kinds = (self._join, self._sync, self._heartbeat, self._leave, self._other)
        weights = [20, 10, 15, 10, 35]
        unsynced = [each for each in self._generations if each not in waiting]
        if state == "CompletingRebalance" and unsynced and self._is(0.7):
            place = self._one(*unsynced)
            weights = [2, 60, 6, 2, 10]
        elif place not in self.ids:
            weights = [40, 1, 2, 1, 20]
        elif state == "PreparingRebalance":
            weights = [50, 3, 6, 6, 8]
        (kind,) = self._chance.choices(kinds, weights)
        return place, kind(place)

    def observe_at(self, place: str, step: Step, response: Body) -> None:
        if step.api == "JOIN_GROUP":
            self._joined(place, step.body, response)
        elif step.api == "LEAVE_GROUP":
            self._left(response.get("members") or [{**step.body, **response}])
        elif step.api == "HEARTBEAT" and response["errorCode"] in GONE:
            is_odd = step.body.get("groupInstanceId", STATIC.get(place)) != STATIC.get(place)
            if step.body["memberId"] == self.ids.get(place) and not is_odd:
                self._forget(place)

    def is_over(self, group: Body, waiting: Mapping[str, Step]) -> bool:
        """Return whether no timer of the described group is left.

        A phase keeps its initial timeout. A rebalance joined only by known static members restarts
        repeatedly.
        """
        state = group["groupState"]
        members = {each["memberId"]: each["groupInstanceId"] for each in group["members"]}
        if self.doomed & members.keys():
            return False
        joins = [each.body for each in waiting.values() if each.api == "JOIN_GROUP"]
        times = [each["rebalanceTimeoutMs"] for each in joins]
        times += [self._timeouts[each] for each in members if each in self._timeouts]
        is_long = max(times, default=TIMEOUT_MS) > SHORT_MS
        if self._phase != (state, False) and (state in SETTLED or is_long):
            self._phase = state, True
        elif self._phase != (state, True):
            self.short_phases += self._phase[1]
            self._phase = state, False
            is_joining = state == "PreparingRebalance"
            return is_joining and not joins and None not in members.values()
        return True

    def _joined(self, place: str, given: Body, response: Body) -> None:
        error, member = response["errorCode"], response["memberId"]
        if error in (0, *GONE):
            self.given.discard(given["memberId"])
        if error == MEMBER_ID_REQUIRED:
            self.given.add(member)
            self.ids[place] = member
        elif error in GONE:
            self._forget(place)
        elif not error:
            self.ids[place], self._generations[place] = member, response["generationId"]
            self._leading[place] = [each["memberId"] for each in response["members"]]
            self._epochs[self.group, member] = response["generationId"]
            self._timeouts[member] = given["rebalanceTimeoutMs"]
            self._instances[self.group, member] = given.get("groupInstanceId")
            if place in self._short:
                self.doomed.add(member)
        self._short.discard(place)

    def _left(self, members: list[Body]) -> None:
        gone = {each["memberId"] for each in members if not each["errorCode"]}
        self.given -= gone
        for place in [each for each, member in self.ids.items() if member in gone]:
            self._forget(place)

    def _forget(self, place: str) -> None:
        member = self.ids.pop(place, "")
        self._generations.pop(place, None)
        self._leading.pop(place, None)
        self._epochs.pop((self.group, member), None)

    def _join(self, place: str) -> Step:
        version, member = self._one(2, 3, 4, 5, 6, 7, 8, 9, 9, 9), self.ids.get(place, "")
        is_patient = not self.is_hasty or (place in STATIC and not self._there)
        if place in STATIC:
            version = max(version, 5)
            member = "" if self._is(0.7 if self.is_hasty else 0.3) else member
        kinds = ([0], [0, 1], [1], [2, 0])
        (kind,) = self._chance.choices(kinds, (50, 30, 3, 17))
        names = ("range", "roundrobin", "sticky")
        given = WALKED if self._is(0.75) else self._one(*UNREADABLE)
        body: Body = {"groupId": self.group, "memberId": member, "protocolType": "consumer"}
        body["protocols"] = [{"name": names[each], "metadata": given} for each in kind]
        body["sessionTimeoutMs"] = TIMEOUT_MS * 5
        if version >= 5:
            body["groupInstanceId"] = STATIC.get(place)
        if self._is(0.1):
            body |= self._odd_join(member)
        timeout = TIMEOUT_MS if is_patient else SHORT_MS
        body["rebalanceTimeoutMs"] = self._timeouts.get(body["memberId"], timeout)
        if self._comes_to_stay(body, version) and self._is(0.15):
            self._short.add(place)
            body["sessionTimeoutMs"] = SHORT_MS
        for other in [each for each in self.ids if self.ids[each] == body["memberId"]]:
            if other != place:
                self._forget(other)
        return Step("JOIN_GROUP", version, body)

    def _comes_to_stay(self, body: Body, version: int) -> bool:
        """Return whether a new member is added by this join if it is accepted."""
        if body["memberId"]:
            return body["memberId"] in self.given
        instance = body.get("groupInstanceId")
        if instance is None:
            return version < MEMBER_ID_REQUIRED_SINCE
        return instance not in self._there

    def _odd_join(self, member: str) -> Body:
        cases: tuple[Body, ...] = (
            {"memberId": "ghost"},
            {"memberId": ""},
            {"groupId": ""},
            {"protocolType": "connect"},
            {"protocolType": ""},
            {"protocols": []},
            {"protocols": [{"name": "odd", "metadata": WALKED}]},
            {"sessionTimeoutMs": self._one(0, 2**31 - 1)},
            {"memberId": self._one(*self._free, member)},
        )
        case: Body = self._one(*cases)
        return case

    def _who_of(self, place: str) -> Body:
        """A member in its generation, sometimes not quite."""
        generation = self._generations.get(place, -1)
        who: Body = {"groupId": self.group, "memberId": self.ids.get(place, "")}
        who |= {"generationId": generation, "groupInstanceId": STATIC.get(place)}
        if not self._is(0.12):
            return who
        odd: dict[str, tuple[Any, ...]] = {
            "memberId": ("", "ghost", *self._free),
            "generationId": (generation - 1, generation + 1, -1),
            "groupInstanceId": ("i1", "i9", None),
            "groupId": ("", self._nobody),
        }
        name = self._one(*odd)
        return who | {name: self._one(*odd[name])}

    def _sync(self, place: str) -> Step:
        version, body = self._one(0, 1, 2, 3, 4, 5, 5, 5), self._who_of(place)
        members = self._leading.get(place, [])
        if self._is(0.1):
            members = members[1:]
        given = [{"memberId": each, "assignment": self._one("", "YQ==")} for each in members]
        if version < 3:
            del body["groupInstanceId"]
        if version >= 5:
            body["protocolType"] = self._one("consumer", "consumer", "consumer", "connect", None)
            body["protocolName"] = self._one("range", "range", "range", "roundrobin", None)
        return Step("SYNC_GROUP", version, {**body, "assignments": given})

    def _heartbeat(self, place: str) -> Step:
        version, body = self._one(0, 1, 2, 3, 4, 4), self._who_of(place)
        if version < 3:
            del body["groupInstanceId"]
        return Step("HEARTBEAT", version, body)

    def _leave(self, place: str) -> Step:
        version, member = self._one(0, 1, 2, 3, 4, 5, 5), self.ids.get(place, "")
        if self._is(0.1):
            member = "ghost"
        if version < 3:
            return Step("LEAVE_GROUP", version, {"groupId": self.group, "memberId": member})
        instance = STATIC.get(place)
        who = {"memberId": member, "groupInstanceId": instance}
        if instance and self._is(0.4):
            who["memberId"] = ""
        others = [{"memberId": self._one("ghost", *self.ids.values()), "groupInstanceId": None}]
        members = [who, *others] if self._is(0.2) else [who]
        return Step("LEAVE_GROUP", version, {"groupId": self.group, "members": members})

    def _other(self, _: str) -> Step:
        kinds = (self._commit, self._fetch, self._look, self._delete)
        (kind,) = self._chance.choices(kinds, (50, 20, 15, 15))
        return kind(self.group)
