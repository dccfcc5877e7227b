"""Random requests of members of a share group, most of them right: heartbeats, records, offsets.

A walk continues from the responses, like those of consumer groups (`group_walks.py`): members send
heartbeats in their epochs, fetch in their sessions, and acknowledge their records. Records are
written before the walk; released ones are delivered again.
"""

from tests.support.batches import numbered
from tests.support.goldens import WRITTEN_MS
from tests.support.group_walks import RandomWalk
from tests.support.walk_sides import MISSING, Body, Step

TOPICS = {"taken": 2, "given": 1}
"""The existing topics with their partitions."""
MEMBERS = ("m1", "m2", "m3")
SETTINGS = {
    "share.assignment.interval.ms": "0",
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "3",
}
BATCHES = (1, 3, 5, 3)
RECORDS = sum(BATCHES)

"""Timestamp of the records: a broker deletes records older than a week."""
Place = tuple[str, int]
PLACES: list[Place] = [(name, each) for name, count in TOPICS.items() for each in range(count)]
GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4


class ShareWalk(RandomWalk):
    """Requests of one walk, whose group has its own name."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.group, self._nobody = name, f"{name}-nobody"
        self._place: Place = self._one(*PLACES)
        self._epochs: dict[str, int] = {}
        self._sessions: dict[str, int] = {}
        self._got: dict[str, dict[Place, list[tuple[int, int]]]] = {}

    @property
    def groups(self) -> list[str]:
        return [self.group, self._nobody]

    def openings(self) -> list[Step]:
        """A member joins, which stays: the states of all partitions are begun for it."""
        joined = {"groupId": self.group, "memberId": "first", "memberEpoch": 0, "rackId": None}
        joined["subscribedTopicNames"] = list(TOPICS)
        return [Step("SHARE_GROUP_HEARTBEAT", 1, joined)]

    def first_fetch(self, epoch: int) -> Step:
        """Its session, which stays open, so that leaders know the states from then on."""
        body: Body = {"groupId": self.group, "memberId": "first", "shareSessionEpoch": epoch}
        body |= {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1 << 20, "maxRecords": 500}
        body |= {"batchSize": 500, "shareAcquireMode": 0, "isRenewAck": False}
        body |= {"topics": _topics([] if epoch else [self._place], {}), "forgottenTopicsData": []}
        return Step("SHARE_FETCH", 2, body)

    def first_release(self, epoch: int) -> Step:
        every = [{"firstOffset": 0, "lastOffset": RECORDS - 1, "acknowledgeTypes": [RELEASE]}]
        batches = {self._place: every}
        body: Body = {"groupId": self.group, "memberId": "first", "shareSessionEpoch": epoch}
        body |= {"isRenewAck": False, "topics": _topics([*batches], batches)}
        return Step("SHARE_ACKNOWLEDGE", 2, body)

    def described(self) -> Step:
        """Return the group coordinator's data of its partitions."""
        body = {"groups": [{"groupId": self.group, "topics": None}]}
        return Step("DESCRIBE_SHARE_GROUP_OFFSETS", 1, body)

    def is_closing(self, step: Step) -> bool:
        """Whether a step ends a session: what its member has is given back after the response."""
        return step.body.get("shareSessionEpoch") == -1

    def state(self) -> Step:
        """Return the share coordinator's data of the partition."""
        request = {"partition": self._place[1], "leaderEpoch": -1}
        topics = [{"topicId": f"id:{self._place[0]}", "partitions": [request]}]
        return Step("READ_SHARE_GROUP_STATE", 0, {"groupId": self.group, "topics": topics})

    def step(self) -> Step:
        kinds = (self._beat, self._fetch, self._acknowledge, self._look, self._set)
        (kind,) = self._chance.choices(kinds, (25, 40, 20, 10, 5))
        return kind()

    def observe(self, step: Step, response: Body) -> None:
        if step.body.get("groupId") != self.group:
            return
        member = step.body.get("memberId")
        if step.api == "SHARE_GROUP_HEARTBEAT":
            self._epochs.pop(member, None)
            if not response["errorCode"] and response["memberEpoch"] > 0:
                self._epochs[member] = response["memberEpoch"]
        elif step.api in ("SHARE_FETCH", "SHARE_ACKNOWLEDGE"):
            self._observe_records(step, response)

    def _observe_records(self, step: Step, response: Body) -> None:
        member, epoch = step.body["memberId"], step.body["shareSessionEpoch"]
        if response["errorCode"]:
            return
        self._sessions[member] = 0 if epoch == -1 else epoch + 1
        got = self._got.setdefault(member, {})
        if epoch == -1:
            got.clear()
        for topic in response["responses"]:
            for partition in topic["partitions"]:
                place = topic["topicId"].removeprefix("id:"), partition["partitionIndex"]
                got.setdefault(place, []).extend(
                    (each["firstOffset"], each["lastOffset"])
                    for each in partition.get("acquiredRecords") or []
                )

    def _beat(self) -> Step:
        member = self._one(*MEMBERS)
        epoch = self._epochs.get(member, 0)
        body: Body = {"groupId": self.group, "memberId": member, "memberEpoch": epoch}
        body |= {"rackId": None, "subscribedTopicNames": None}
        if not epoch or self._is(0.1):
            body |= {"memberEpoch": 0, "subscribedTopicNames": self._names()}
        elif self._is(0.3):
            body |= self._one({"memberEpoch": -1}, {"subscribedTopicNames": self._names()})
        odd = {
            "memberId": ("", " ", "ghost"),
            "memberEpoch": (-2, -1, epoch - 1, epoch + 1),
            "rackId": ("", "r"),
            "groupId": ("", self._nobody),
            "subscribedTopicNames": ([], ["", "taken"], None),
        }
        if self._is(0.15):
            name = self._one(*odd)
            body[name] = self._one(*odd[name])
        return Step("SHARE_GROUP_HEARTBEAT", 1, body)

    def _names(self) -> list[str]:
        names: list[str] = self._one(
            ["taken"], ["taken", "given"], ["given", "taken"], [*TOPICS], [MISSING, "given"]
        )
        return names

    def _fetch(self) -> Step:
        member = self._one(*MEMBERS)
        epoch = self._sessions.get(member, 0)
        added = [self._place] if not epoch else self._one([], [], [], [self._place])
        kept = [
            ACCEPT,
            REJECT,
            GAP,
            RENEW,
        ]  # records it releases may already be free at a real broker
        batches = self._batches(member, kept) if epoch and self._is(0.6) else {}
        body: Body = {"groupId": self.group, "memberId": member, "shareSessionEpoch": epoch}
        body |= {"maxWaitMs": 0, "minBytes": 0, "maxBytes": self._one(1 << 20, 300, 1)}
        body |= {"maxRecords": self._one(1, 3, 5, 500), "batchSize": self._one(1, 2, 4, 500)}
        body |= {"shareAcquireMode": self._one(0, 0, 1), "isRenewAck": False}
        body |= {"topics": _topics([*added, *batches], batches), "forgottenTopicsData": []}
        if epoch and self._is(0.05):
            forgotten = {"topicId": f"id:{self._place[0]}", "partitions": [self._place[1]]}
            body["forgottenTopicsData"] = [forgotten]
        odd = {
            "memberId": ("", "ghost", None),
            "shareSessionEpoch": (-1, -1, 0, epoch + 1, epoch - 1),
            "maxBytes": (0,),
            "maxRecords": (0,),
            "groupId": (None,),
            "isRenewAck": (True,),
            "topics": (_topics([("taken", 7)], {}), _topics([(MISSING, 0)], {})),
        }
        if self._is(0.12):
            name = self._one(*odd)
            body[name] = self._one(*odd[name])
        return Step("SHARE_FETCH", 2, body)

    def _batches(self, member: str, among: list[int]) -> dict[Place, list[Body]]:
        """Acknowledge some of a member's records with these types."""
        batches: dict[Place, list[Body]] = {}
        for place, ranges in self._got.get(member, {}).items():
            while ranges and self._is(0.8):
                first, last = ranges.pop(0)
                if first < last and self._is(0.3):
                    last = self._chance.randrange(first, last)
                kinds = [self._one(*among)]
                if self._is(0.2):
                    of_each = [each for each in among if each != RENEW]
                    kinds = [self._one(*of_each) for _ in range(first, last + 1)]
                if self._is(0.07):
                    first, last = self._one((first - 1, last), (-1, last), (last, first), (99, 100))
                batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": kinds}
                batches.setdefault(place, []).append(batch)
        return batches

    def _acknowledge(self) -> Step:
        member = self._one(*MEMBERS)
        epoch = self._sessions.get(member, 0)
        kinds = [ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP, RENEW]
        batches = self._batches(member, kinds)
        body: Body = {"groupId": self.group, "memberId": member, "shareSessionEpoch": epoch}
        body |= {"isRenewAck": self._is(0.1), "topics": _topics([*batches], batches)}
        if self._is(0.15):
            body["shareSessionEpoch"] = self._one(-1, -1, 0, epoch + 1)
        if self._is(0.05):
            body["topics"] = _topics([(MISSING, 0)], {}) + _topics([("taken", 7)], {})
        return Step("SHARE_ACKNOWLEDGE", 2, body)

    def _look(self) -> Step:
        groups = self._one([self.group], [self.group, self._nobody], [""])
        rights = {"includeAuthorizedOperations": self._is(0.2)}
        kinds = {"statesFilter": self._one([], ["Stable"], ["Empty"]), "typesFilter": ["share"]}
        steps = (
            Step("SHARE_GROUP_DESCRIBE", 1, {"groupIds": groups, **rights}),
            Step("CONSUMER_GROUP_DESCRIBE", 1, {"groupIds": groups, **rights}),
            Step("LIST_GROUPS", 5, kinds),
            self.described(),
        )
        (step,) = self._chance.choices(steps, (4, 1, 1, 3))
        return step

    def _set(self) -> Step:
        name, partition = self._place
        at = {"partitionIndex": partition, "startOffset": self._one(0, 2, 5)}
        body: Body = {"groupId": self.group, "topics": [{"topicName": name, "partitions": [at]}]}
        if self._is(0.7):
            return Step("ALTER_SHARE_GROUP_OFFSETS", 0, body)
        return Step("DELETE_SHARE_GROUP_OFFSETS", 0, {**body, "topics": [{"topicName": name}]})


def records_in(state: Body) -> dict[int, tuple[int, int]]:
    """Return the share coordinator's state and delivery count of each record."""
    (topic,) = state["results"]
    (partition,) = topic["partitions"]
    assert partition["errorCode"] == 0, state
    return {
        offset: (each["deliveryState"], each["deliveryCount"])
        for each in partition["stateBatches"]
        for offset in range(each["firstOffset"], each["lastOffset"] + 1)
    }


def batches() -> list[bytes]:
    return [numbered(count, time=WRITTEN_MS + count) for count in BATCHES]


def _topics(places: list[Place], batches: dict[Place, list[Body]]) -> list[Body]:
    found: dict[str, Body] = {}
    for place in dict.fromkeys(places):
        topic = found.setdefault(place[0], {"topicId": f"id:{place[0]}", "partitions": []})
        fields = {"partitionIndex": place[1], "acknowledgementBatches": batches.get(place, [])}
        topic["partitions"].append(fields)
    return list(found.values())
