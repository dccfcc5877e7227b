"""Random requests about a streams group and its topics, most of them right.

A walk continues from the responses, like those of consumer groups (`group_walks.py`). Its members
run one topology in several processes. A source topic of the topology is created, grows and is
deleted, and so is an internal topic.

After a heartbeat that failed in Kafka, the group is not described until another heartbeat succeeds.
Kafka shows the new topic metadata only after the next write to the group's partition of
`__consumer_offsets`, which may be of another group.
"""

from tests.support.group_walks import RandomWalk
from tests.support.streams_groups import NO_TASKS, internal, part, topology
from tests.support.walk_sides import Body, Step

TOPICS = {"run": 4, "ran": 2, "runs": 2}
"""The existing topics with their partitions."""
MEMBERS = ("m1", "m2", "m3", "m4")
PROCESSES = ("p1", "p2", "p3")
TIMEOUT_MS = 60_000
AT_ONCE = {"timeoutMs": 30_000, "validateOnly": False}
MISSING_INTERNAL, UNKNOWN_SERVER_ERROR = 3, -1
CHANGES = ("CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS", "INCREMENTAL_ALTER_CONFIGS")
SETTINGS = {
    "streams.initial.rebalance.delay.ms": "0",
    "streams.assignment.interval.ms": "0",
}
"""Members of the groups get their tasks at once."""


class StreamsWalk(RandomWalk):
    """Requests of one walk, whose group and topics have its own name."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.group, self._nobody = name, f"{name}-nobody"
        self.topic = f"{name}-source"
        self._repartition, self._changelog = f"{name}-repartition", f"{name}-changelog"
        self.topics = [self.topic, self._repartition, self._changelog]
        topologies = self._topologies()
        self._runs = topologies[seed % len(topologies)]
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, Body] = {}
        self._endpoint_epochs: dict[str, int] = {}
        self._has_failed = False
        self._at = 0

    @property
    def groups(self) -> list[str]:
        return [self.group, self._nobody]

    def _topologies(self) -> list[Body]:
        changelog, repartition = internal(self._changelog), internal(self._repartition)
        kept = {"stateChangelogTopics": [changelog]}
        read = part("0", "run", repartitionSinkTopics=[self._repartition])
        joined = [{"sourceTopics": [0, 1], "sourceTopicRegex": [], "repartitionSourceTopics": []}]
        mixed = [{"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": [0]}]
        given = {"cleanup_policy": "compact", "segment_bytes": "1048576"}
        return [
            topology(part("0", "run")),
            topology(part("0", "run", "ran"), part("1", "runs"), part("2", self.topic)),
            topology(part("0", "run", **kept)),
            topology(part("0", "run", "runs", **kept), part("1", "ran"), epoch=3),
            topology(read, part("1", repartitionSourceTopics=[repartition], **kept)),
            topology(
                part("0", self.topic, repartitionSinkTopics=[self._repartition]),
                part("1", "ran", repartitionSourceTopics=[internal(self._repartition, 3)]),
                epoch=1,
            ),
            topology(part("0", "ran", "runs", copartitionGroups=joined, **kept)),
            topology(part("0", "run", self.topic, copartitionGroups=joined)),
            topology(
                part("a", "run", repartitionSinkTopics=[self._repartition]),
                part(
                    "b",
                    self.topic,
                    repartitionSourceTopics=[repartition],
                    stateChangelogTopics=[internal(self._changelog, **given)],
                    copartitionGroups=mixed,
                ),
            ),
        ]

    def step(self) -> Step:
        """The next request."""
        self._at += 1
        if self._at == 1 and self._is(0.6):
            name = self._one(*[self.topic] * 4, self._changelog)
            return self._creation(name, self._one(4, 4, 2))
        kinds = (self._beat, self._look, self._commit, self._set, self._change)
        (kind,) = self._chance.choices(kinds, (70, 10, 9, 4, 7))
        return kind()

    def may_change_topics(self, step: Step, response: Body) -> bool:
        """Whether topics come, go or grow with a step, or settings change."""
        codes = [each["statusCode"] for each in response.get("status") or []]
        return MISSING_INTERNAL in codes or step.api in CHANGES

    def observe(self, step: Step, response: Body) -> None:
        if step.api != "STREAMS_GROUP_HEARTBEAT" or step.body["groupId"] != self.group:
            return
        member, error = step.body["memberId"], response["errorCode"]
        if error == UNKNOWN_SERVER_ERROR or (not error and response["memberEpoch"] > 0):
            self._has_failed = bool(error)
        if error or response["memberEpoch"] < 0:
            self._epochs.pop(member, None)
            return
        self._epochs[member] = response["memberEpoch"]
        if self._is(0.9):  # else the response is lost with regard to endpoints
            self._endpoint_epochs[member] = response["endpointInformationEpoch"]
        if response["activeTasks"] is not None:
            self._owned[member] = {name: response[name] for name in NO_TASKS}

    def _beat(self) -> Step:
        member = self._one(*MEMBERS)
        epoch = self._epochs.get(member, 0)
        body: Body = {"groupId": self.group, "memberId": member, "memberEpoch": epoch}
        body |= {"endpointInformationEpoch": self._endpoint_epochs.get(member, 0)}
        body |= {"instanceId": None, "rackId": None, "rebalanceTimeoutMs": -1, "topology": None}
        body |= {"processId": None, "userEndpoint": None, "clientTags": None, "taskOffsets": None}
        body |= {"taskEndOffsets": None, "shutdownApplication": False, **dict.fromkeys(NO_TASKS)}
        body |= self._joining(member) if not epoch or self._is(0.07) else self._going_on(member)
        body |= self._odd(body) if self._is(0.13) else {}
        return Step("STREAMS_GROUP_HEARTBEAT", 0, body)

    def _joining(self, member: str) -> Body:
        process = PROCESSES[MEMBERS.index(member) // 2 if self._is(0.8) else 2]
        endpoint = {"host": process, "port": 8080} if self._is(0.5) else None
        tags = self._one([], [{"key": "zone", "value": "z"}, {"key": "rack", "value": "r"}])
        fields: Body = {"memberEpoch": 0, "rebalanceTimeoutMs": TIMEOUT_MS, "topology": self._runs}
        fields |= {"processId": process, "userEndpoint": endpoint, "clientTags": tags, **NO_TASKS}
        if self._is(0.15):
            epoch = self._runs["epoch"]
            fields["topology"] = self._one(
                *({**self._runs, "epoch": epoch + more} for more in (-1, -1, -1, -1, 1)),
                *self._topologies()[:3],
                topology(part("0", "run"), part("0", "ran")),
                topology(part("0", "run", stateChangelogTopics=[internal(self._changelog, 2)])),
                topology(part("0", "__consumer_offsets")),
                topology(part("0", "a/b")),
                topology(),
            )
        return fields

    def _going_on(self, member: str) -> Body:
        response = self._owned.get(member, NO_TASKS)
        cases = (
            {},
            response,
            NO_TASKS,
            {"memberEpoch": -1},
            {"shutdownApplication": True},
            {"rackId": self._one("r1", "r2")},
            {"userEndpoint": {"host": "elsewhere", "port": self._one(1, 2)}, **response},
            {"processId": self._one(*PROCESSES)},
            {"memberId": self._one("ghost", "nobody")},
            {"memberEpoch": self._epochs[member] + 1},
            {"groupId": self._nobody},
        )
        (case,) = self._chance.choices(cases, (25, 40, 10, 9, 1, 3, 4, 3, 2, 2, 1))
        return dict(case)

    def _odd(self, body: Body) -> Body:
        epoch = body["memberEpoch"]
        tasks = [{"subtopologyId": self._one("0", "1", "9"), "partitions": [self._one(0, 1, 9)]}]
        odd = {
            "memberId": ("", " "),
            "memberEpoch": (-3, -2, -1, epoch - 1, epoch - 1),
            "instanceId": ("", "i1"),
            "rackId": ("",),
            "groupId": ("", self._nobody, self._nobody),
            "activeTasks": (None, tasks, tasks),
            "standbyTasks": (None, tasks),
            "warmupTasks": (None, tasks),
            "taskOffsets": ([],),
            "topology": (None, self._runs),
            "clientTags": ([{"key": "k", "value": "v"}] * 2,),
            "endpointInformationEpoch": (-1, 7),
            "processId": ("",),
        }
        name = self._one(*odd, "groupId", "memberEpoch", "memberEpoch", "activeTasks")
        return {name: self._one(*odd[name])}

    def _look(self) -> Step:
        known = self._one([self.group], [self.group, self._nobody])
        groups = self._one(known, known, [""])
        rights = {"includeAuthorizedOperations": self._is(0.2)}
        kinds = {"statesFilter": self._one([], ["Stable"], ["not_ready"], ["Assigning", "empty"])}
        kinds["typesFilter"] = self._one([], ["streams"], ["Classic"])
        steps = (
            Step("STREAMS_GROUP_DESCRIBE", 0, {"groupIds": groups, **rights}),
            Step("CONSUMER_GROUP_DESCRIBE", 1, {"groupIds": groups, **rights}),
            Step("DESCRIBE_GROUPS", 6, {"groups": known, **rights}),
            Step("LIST_GROUPS", 5, kinds),
            Step("DELETE_GROUPS", 2, {"groupsNames": known}),
        )
        described = 0 if self._has_failed else 6
        (step,) = self._chance.choices(steps, (described, 1, 1, 2, 1))
        return step

    def _commit(self) -> Step:
        member, epoch = self._one(("", -1), *self._epochs.items())
        if self._is(0.5):
            epoch += self._one(-2, -1, -1, 1)
        partitions = [
            {"partitionIndex": each, "committedOffset": 7, "committedMetadata": ""}
            | {"committedLeaderEpoch": -1}
            for each in self._one([0], [1, 2])
        ]
        topics = [{"name": self._one("run", "ran", self.topic), "partitions": partitions}]
        body: Body = {"groupId": self.group, "memberId": member, "topics": topics}
        body |= {"generationIdOrMemberEpoch": epoch, "groupInstanceId": None}
        return Step("OFFSET_COMMIT", self._one(8, 9, 9), body)

    def _set(self) -> Step:
        config = {"name": "streams.num.standby.replicas", "configOperation": 0}
        config["value"] = self._one("0", "1", "2")
        resource = {"resourceType": 32, "resourceName": self.group, "configs": [config]}
        body = {"resources": [resource], "validateOnly": False}
        return Step("INCREMENTAL_ALTER_CONFIGS", 1, body)

    def _change(self) -> Step:
        name = self._one(self.topic, self.topic, self.topic, self._changelog, self._repartition)
        count = self._one(2, 3, 4, 4)
        grown = {"name": name, "count": count + 1, "assignments": None}
        steps = (
            self._creation(name, count),
            Step("CREATE_PARTITIONS", 1, {"topics": [grown], **AT_ONCE}),
            Step("DELETE_TOPICS", 5, {"topicNames": [name], "timeoutMs": 30_000}),
        )
        (step,) = self._chance.choices(steps, (3, 1, 2))
        return step

    @staticmethod
    def _creation(name: str, count: int) -> Step:
        created = {"name": name, "numPartitions": count, "replicationFactor": 1}
        created |= {"assignments": [], "configs": []}
        return Step("CREATE_TOPICS", 4, {"topics": [created], **AT_ONCE})
