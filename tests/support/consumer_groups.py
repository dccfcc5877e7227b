"""A consumer group (KIP-848) on the bench, and members that behave as Kafka's clients do."""

from typing import Any

from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_group import ConsumerGroup
from tests.support.machine import Bench

GROUP = "g"
TIMEOUT_MS = 60_000


class ConsumerBench(Bench):
    """One broker that coordinates the group `g`, with the topics `foo` (6) and `bar` (3).

    Attributes:
        ids: topic name to id.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"offsets_topic_num_partitions": 1, **settings})
        self.ids = {"foo": self.topic("foo", 6), "bar": self.topic("bar", 3)}
        self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])

    def beat(self, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        """The response to a heartbeat; `fields` by Kafka's names, `owned` is by topic name."""
        event = {key: fields.pop(key) for key in ("principal", "broker") if key in fields}
        if "owned" in fields:
            fields["topicPartitions"] = self.places(fields.pop("owned"))
        body = {"groupId": GROUP, "memberId": member, "memberEpoch": epoch, **fields}
        return self.request("CONSUMER_GROUP_HEARTBEAT", version, body, **event)

    def join(self, member: str, *topics: str, **fields: Any) -> Any:
        given = {
            "rebalanceTimeoutMs": TIMEOUT_MS,
            "subscribedTopicNames": list(topics or ("foo",)),
            "topicPartitions": [],
        }
        return self.beat(member, 0, **{**given, **fields})

    def places(self, owned: dict[str, list[int]]) -> list[dict[str, Any]]:
        return [{"topicId": self.ids[name], "partitions": owned[name]} for name in owned]

    def reported(self, response: Any) -> dict[str, list[int]] | None:
        """The assignment in a response, by topic name; None where there is none."""
        if response["assignment"] is None:
            return None
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {
            names[each["topicId"]]: sorted(each["partitions"])
            for each in response["assignment"]["topicPartitions"]
        }

    def group(self) -> ConsumerGroup:
        consumer_group = groups.find(self.cell.tables.of(1), GROUP)
        assert isinstance(consumer_group, ConsumerGroup)
        return consumer_group

    def state(self) -> str:
        return str(self.describe()["groupState"])

    def describe(self, version: int = 1) -> Any:
        request = {"groupIds": [GROUP], "includeAuthorizedOperations": False}
        return self.request("CONSUMER_GROUP_DESCRIBE", version, request)["groups"][0]

    def commit(self, member: str, epoch: int, version: int = 9, partition: int = 0) -> int:
        """The error of a commit of offset 100 for a partition of `foo`."""
        offset = {"partitionIndex": partition, "committedOffset": 100, "committedMetadata": ""}
        topic = {"name": "foo", "topicId": self.ids["foo"], "partitions": [offset]}
        body = {
            "groupId": GROUP,
            "generationIdOrMemberEpoch": epoch,
            "memberId": member,
            "topics": [topic],
        }
        response = self.request("OFFSET_COMMIT", version, body)
        return int(response["topics"][0]["partitions"][0]["errorCode"])


class Consumer:
    """A member that follows its assignments: revokes at once and reports its owned partitions.

    Attributes:
        epoch: the last member epoch that it received; 0 before it has joined, or once it is fenced.
        owned: the partitions that it has, by topic name.
    """

    def __init__(self, bench: ConsumerBench, member: str, *topics: str, **fields: Any) -> None:
        self._bench = bench
        self._fields = fields
        self._has_news = False
        self.member = member
        self.topics = list(topics or ("foo",))
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}

    def beat(self) -> int:
        """Sends a heartbeat; the error in its response."""
        if self.epoch == 0:
            response = self._bench.join(self.member, *self.topics, **self._fields)
        else:
            fields = {"owned": self.owned} if self._has_news else {}
            response = self._bench.beat(self.member, self.epoch, **fields)
        self._has_news = False
        error = int(response["errorCode"])
        if error:
            self.epoch, self.owned = 0, {}
            return error
        self.epoch = response["memberEpoch"]
        reported = self._bench.reported(response)
        if reported is not None:
            self._has_news = reported != self.owned
            self.owned = reported
        return 0

    def leave(self) -> None:
        self._bench.beat(self.member, -1)
        self.epoch, self.owned = 0, {}

    def places(self) -> set[tuple[str, int]]:
        return {(name, partition) for name, parts in self.owned.items() for partition in parts}


def settle(bench: ConsumerBench, *consumers: Consumer) -> None:
    """Lets members send heartbeats, half a second apart, until nothing changes any more."""
    for _ in range(40):
        bench.tick(600)
        before = [(each.epoch, each.owned) for each in consumers]
        for each in consumers:
            each.beat()
        after = [(each.epoch, each.owned) for each in consumers]
        if before == after and bench.state() == "Stable":
            return
    raise AssertionError([(each.member, each.epoch, each.owned) for each in consumers])
