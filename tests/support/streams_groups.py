"""A streams group (KIP-1071) on the bench, and members that behave as Kafka's clients do."""

from typing import Any

from brokertwin.state.groups import groups
from brokertwin.state.groups.streams_group import StreamsGroup
from tests.support.machine import Bench

GROUP = "g"
TIMEOUT_MS = 60_000
REPARTITION, CHANGELOG = "g-words-repartition", "g-counts-changelog"
NO_TASKS: dict[str, list[Any]] = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}


def internal(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    listed = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replicationFactor": 0, "topicConfigs": listed}


def part(subtopology_id: str, *sources: str, **fields: Any) -> dict[str, Any]:
    given = {
        "subtopologyId": subtopology_id,
        "sourceTopics": list(sources),
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    }
    return {**given, **fields}


def topology(*parts: dict[str, Any], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": list(parts)}


PASSING = topology(part("0", "foo"))
"""Reads `foo`, and keeps nothing."""

STATEFUL = topology(part("0", "foo", stateChangelogTopics=[internal(CHANGELOG)]))
"""Reads `foo`, and keeps state in a changelog."""

COUNTING = topology(
    part("0", "foo", repartitionSinkTopics=[REPARTITION]),
    part(
        "1",
        repartitionSourceTopics=[internal(REPARTITION, cleanup_policy="delete")],
        stateChangelogTopics=[internal(CHANGELOG, cleanup_policy="compact")],
    ),
)
"""Counts words: over a repartition topic, in a changelog."""


def tasks(result: list[dict[str, Any]] | None) -> list[str]:
    return [f"{each['subtopologyId']}_{n}" for each in result or [] for n in each["partitions"]]


def task_ids(names: list[str]) -> list[dict[str, Any]]:
    found: dict[str, list[int]] = {}
    for name in names:
        each, _, number = name.partition("_")
        found.setdefault(each, []).append(int(number))
    return [{"subtopologyId": each, "partitions": numbers} for each, numbers in found.items()]


def has(active: list[str], standby: list[str] | None = None) -> dict[str, Any]:
    return NO_TASKS | {"activeTasks": task_ids(active), "standbyTasks": task_ids(standby or [])}


class StreamsBench(Bench):
    """One broker that coordinates the group `g`, with the topics `foo` (4) and `bar` (2).

    Groups wait for members after the first only if `delay_ms` is set.
    """

    def __init__(self, delay_ms: int = 0, **settings: Any) -> None:
        options = {
            "group.streams.initial.rebalance.delay.ms": str(delay_ms),
            **settings.pop("given", {}),
        }
        super().__init__(**{"offsets_topic_num_partitions": 1, "given": options, **settings})
        self.topic("foo", 4)
        self.topic("bar", 2)
        self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])

    def beat(self, member: str, epoch: int, **fields: Any) -> Any:
        """The response to a heartbeat; `fields` by Kafka's names."""
        event = {key: fields.pop(key) for key in ("principal", "broker") if key in fields}
        given = {"endpointInformationEpoch": 0, "rebalanceTimeoutMs": -1, "groupId": GROUP}
        body = {**given, "memberId": member, "memberEpoch": epoch, **fields}
        return self.request("STREAMS_GROUP_HEARTBEAT", 0, body, **event)

    def join(self, member: str, runs: dict[str, Any] = PASSING, **fields: Any) -> Any:
        """Return the response to a join; without `processId` each member is a separate process."""
        given = {"rebalanceTimeoutMs": TIMEOUT_MS, "topology": runs, "processId": f"p-{member}"}
        return self.beat(member, 0, **{**given, "clientTags": [], **NO_TASKS, **fields})

    def later(self, member: str, epoch: int, **fields: Any) -> Any:
        """The response to a heartbeat after the least time between two assignments."""
        self.now += 1_000
        return self.beat(member, epoch, **fields)

    def describe(self) -> Any:
        body = {"groupIds": [GROUP], "includeAuthorizedOperations": False}
        return self.request("STREAMS_GROUP_DESCRIBE", 0, body)["groups"][0]

    def group(self) -> StreamsGroup:
        streams_group = groups.find(self.cell.tables.of(1), GROUP)
        assert isinstance(streams_group, StreamsGroup)
        return streams_group


def codes(response: Any) -> list[int]:
    return [each["statusCode"] for each in response["status"]]
