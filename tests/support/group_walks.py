"""Random requests about consumer groups and their offsets, most of them right.

A walk continues from the responses: members send heartbeats in their epochs and own their assigned
partitions. Some requests have epochs and ids of other members, some responses are lost, and every
version occurs.
"""

from random import Random
from typing import Any

from tests.support.walk_sides import MISSING, Body, Step

TOPICS = {"walked": 3, "trodden": 2, "passed": 1}
"""The existing topics with their partitions."""
MEMBERS = ("m1", "m2", "m3")
INSTANCES = ("i1", "i2")
TIMEOUT_MS = 60_000
COMMITS, FETCHES = (2, 5, 6, 7, 8, 9, 9, 10, 10), (1, 2, 5, 6, 7, 8, 9, 9, 10, 10)
TOO_LONG = "y" * 4097


class RandomWalk:
    """Random choices of a walk.

    Args:
        seed: makes the walk repeatable.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def _is(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _one(self, *of: Any) -> Any:
        return self._chance.choice(of)


class Walk(RandomWalk):
    """Requests of one walk, whose groups' names begin with its own."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.groups = [f"{name}-a", f"{name}-b"]
        self._nobody = f"{name}-nobody"
        self._epochs: dict[tuple[str, str], int] = {}
        self._owned: dict[tuple[str, str], list[Body]] = {}
        self._instances: dict[tuple[str, str], str] = {}
        self._dynamic: set[tuple[str, str]] = set()

    def step(self) -> Step:
        group = self.groups[0 if self._is(0.85) else 1]
        kinds = (self._beat, self._commit, self._fetch, self._look, self._delete)
        (kind,) = self._chance.choices(kinds, (55, 15, 10, 10, 10))
        return kind(group)

    def observe(self, step: Step, response: Body) -> None:
        if step.api != "CONSUMER_GROUP_HEARTBEAT":
            return
        place = (step.body["groupId"], step.body["memberId"])
        if response["errorCode"]:
            self._epochs.pop(place, None)
            return
        self._epochs[place] = max(response["memberEpoch"], 0)
        if step.body["instanceId"]:
            self._instances[place] = step.body["instanceId"]
        elif response["memberEpoch"] < 0:
            self._dynamic.discard(place)
        else:
            self._dynamic.add(place)
        if response["assignment"] is not None:
            self._owned[place] = response["assignment"]["topicPartitions"]

    def _beat(self, group: str) -> Step:
        member, version = self._one(*MEMBERS), self._one(0, 1, 1, 1)
        place = (group, member)
        body: Body = {"groupId": group, "memberId": member, "rackId": None}
        body |= {"memberEpoch": self._epochs.get(place, 0), "rebalanceTimeoutMs": -1}
        body |= {"instanceId": self._instances.get(place), "subscribedTopicNames": None}
        body |= {"serverAssignor": None, "topicPartitions": None}
        if not body["memberEpoch"] or self._is(0.1):
            names = self._names() or [MISSING]
            body |= {"memberEpoch": 0, "rebalanceTimeoutMs": TIMEOUT_MS}
            body |= {"subscribedTopicNames": names, "topicPartitions": []}
            if body["instanceId"] is None and place not in self._dynamic and self._is(0.4):
                body["instanceId"] = self._one(*INSTANCES)
        else:
            body |= self._going_on(place)
        if self._is(0.15):
            body["serverAssignor"] = self._one("uniform", "range")
        if self._is(0.2):
            body |= self._odd(body)
        draws_id = not body["memberId"]  # in version 0 the coordinator does
        return Step("CONSUMER_GROUP_HEARTBEAT", 1 if draws_id else version, body)

    def _going_on(self, place: tuple[str, str]) -> Body:
        fields: Body = {"topicPartitions": self._owned.get(place, [])}
        names = {"subscribedTopicNames": self._names()}
        nothing = {"topicPartitions": []}
        cases = ({}, fields, nothing, names, {"memberEpoch": -1}, {"memberEpoch": -2})
        (case,) = self._chance.choices(cases, (35, 30, 10, 10, 8, 7))
        return dict(case)

    def _odd(self, body: Body) -> Body:
        epoch = body["memberEpoch"]
        odd = {
            "memberId": ("", " ", "ghost"),
            "memberEpoch": (-3, -2, -1, epoch - 1, epoch + 1, 2**31 - 1),
            "instanceId": ("", "i9") if epoch else ("",),
            "rackId": ("", "r"),
            "rebalanceTimeoutMs": (-1, 2**31 - 1),  # below -1 it is over before the next request
            "subscribedTopicNames": (None, [], ["", "walked"], ["a/b"]),
            "serverAssignor": ("", "bogus"),
            "topicPartitions": (None, *self._wrong_places()),
            "groupId": ("", " ", self._nobody),
        }
        name = self._one(*odd, "memberEpoch", "memberEpoch", "groupId")
        return {name: self._one(*odd[name])}

    @staticmethod
    def _wrong_places() -> list[list[Body]]:
        named = [("walked", [0, 1, 2]), ("walked", [0, 0]), ("trodden", [9]), (MISSING, [0])]
        return [[{"topicId": f"id:{name}", "partitions": parts}] for name, parts in named]

    def _names(self) -> list[str]:
        names: list[str] = self._one(
            ["walked"], ["walked", "trodden"], ["trodden"], ["passed", "walked"], [MISSING], []
        )
        return names

    def _who(self, group: str) -> tuple[str, int]:
        known = [(member, epoch) for (of, member), epoch in self._epochs.items() if of == group]
        member, epoch = self._one(("", -1), *known, *known)
        if self._is(0.3):
            epoch = self._one(-1, -2, 0, epoch - 1, epoch + 1)
        return self._one("", "ghost") if self._is(0.05) else member, epoch

    def _commit(self, group: str) -> Step:
        version, (member, epoch) = self._one(*COMMITS), self._who(group)
        topics = []
        for name in self._one(["walked"], ["walked", "trodden"], [MISSING, "passed"], []):
            partitions = [self._offset(each, version) for each in self._one([0], [0, 1], [2, 9])]
            topics.append(_named(name, version) | {"partitions": partitions})
        body: Body = {"groupId": "" if self._is(0.03) else group, "memberId": member}
        body |= {"generationIdOrMemberEpoch": epoch, "topics": topics}
        if version >= 7:
            body["groupInstanceId"] = self._instances.get((group, member))
        if version <= 4:
            body["retentionTimeMs"] = -1
        return Step("OFFSET_COMMIT", version, body)

    def _offset(self, partition: int, version: int) -> Body:
        offset, metadata = self._chance.randrange(-2, 100), self._one("", "x", None)
        fields: Body = {"partitionIndex": partition, "committedOffset": offset}
        fields["committedMetadata"] = TOO_LONG if partition == 1 and self._is(0.2) else metadata
        return fields | ({"committedLeaderEpoch": self._one(-1, 0, 7)} if version >= 6 else {})

    def _fetch(self, group: str) -> Step:
        version, (member, epoch) = self._one(*FETCHES), self._who(group)
        topics = None
        if version < 2 or self._is(0.6):
            names = self._one(["walked"], ["walked", "trodden"], [MISSING], [])
            indexes = self._one([0], [0, 1], [9], [])
            topics = [_named(each, version) | {"partitionIndexes": indexes} for each in names]
        if version < 8:
            body: Body = {"groupId": group, "topics": topics}
        else:
            request: Body = {"groupId": group, "topics": topics}
            if version >= 9:
                request |= {"memberId": self._one(member, member, None), "memberEpoch": epoch}
            others = [{**request, "groupId": self._nobody}] if self._is(0.3) else []
            body = {"groups": [request, *others]}
        return Step("OFFSET_FETCH", version, body | _stable(version, self._is(0.2)))

    def _look(self, group: str) -> Step:
        groups = self._one([group], [group, self._nobody], [""])
        rights = {"includeAuthorizedOperations": self._is(0.2)}
        kinds = {"statesFilter": self._one([], ["Stable"], ["empty", "Reconciling"], ["bogus"])}
        kinds["typesFilter"] = self._one([], ["consumer"], ["Classic"], ["share", "streams"])
        version = self._one(0, 1)
        steps = (
            Step("CONSUMER_GROUP_DESCRIBE", version, {"groupIds": groups, **rights}),
            Step("SHARE_GROUP_DESCRIBE", 1, {"groupIds": groups, **rights}),
            Step("STREAMS_GROUP_DESCRIBE", 0, {"groupIds": groups, **rights}),
            Step("DESCRIBE_GROUPS", 5 + version, {"groups": groups, **rights}),
            Step("LIST_GROUPS", 5, kinds),
        )
        (step,) = self._chance.choices(steps, (4, 1, 1, 2, 2))
        return step

    def _delete(self, group: str) -> Step:
        if self._is(0.3):
            named = self._one([group], [group, self._nobody], ["", group])
            return Step("DELETE_GROUPS", self._one(0, 1, 2), {"groupsNames": named})
        topics = [
            {"name": name, "partitions": [{"partitionIndex": each} for each in partitions]}
            for name in self._one(["walked"], ["trodden", "passed"], [MISSING], [])
            for partitions in [self._one([0], [0, 1], [9], [])]
        ]
        named = self._one("", self._nobody) if self._is(0.1) else group
        return Step("OFFSET_DELETE", 0, {"groupId": named, "topics": topics})


def _named(name: str, version: int) -> Body:
    return {"topicId": f"id:{name}"} if version >= 10 else {"name": name}


def _stable(version: int, is_stable: bool) -> Body:
    return {"requireStable": is_stable} if version >= 7 else {}
