"""A share group on the bench."""

from typing import Any

from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup
from tests.support.machine import Bench

GROUP = "g"


class ShareBench(Bench):
    """One broker that coordinates the share group `g`, with the topics `foo` (3) and `bar` (2)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"offsets_topic_num_partitions": 1, **settings})
        self.ids = {"foo": self.topic("foo", 3), "bar": self.topic("bar", 2)}
        self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])

    def beat(
        self, member: str, epoch: int, *topics: str, rack: str | None = None, **event: Any
    ) -> Any:
        names = list(topics) or None
        body = {"groupId": GROUP, "memberId": member, "memberEpoch": epoch}
        body |= {"rackId": rack, "subscribedTopicNames": names}
        return self.request("SHARE_GROUP_HEARTBEAT", 1, body, **event)

    def later(self, member: str, epoch: int, *topics: str) -> Any:
        """The same, after the least time between two assignments."""
        self.now += 1_000
        return self.beat(member, epoch, *topics)

    def reported(self, response: Any) -> dict[str, list[int]]:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        places = response["assignment"]["topicPartitions"]
        return {names[each["topicId"]]: sorted(each["partitions"]) for each in places}

    def group(self) -> ShareGroup | None:
        share_group = groups.find(self.cell.tables.of(1), GROUP)
        assert share_group is None or isinstance(share_group, ShareGroup)
        return share_group

    def states(self) -> list[str]:
        return [key for key in self.cell.tables.groups.keys("1/") if "/share-state/" in key]
