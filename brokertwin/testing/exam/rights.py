"""What an exam may ask: everything, what a normal user may do, or only what changes nothing."""

from enum import StrEnum
from typing import Any

from brokertwin.protocol.schemas import API_KEYS
from brokertwin.testing.exam.model import Do, Scenario, Step


class Rights(StrEnum):
    ADMIN = "admin"
    """All operations on the cluster."""
    USER = "user"
    """All operations on topics, groups and transactional ids with the exam's prefix."""


OF_THE_CLUSTER = frozenset(
    {
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "DeleteAcls",
        "DeleteShareGroupState",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeLogDirs",
        "DescribeQuorum",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "ExpireDelegationToken",
        "InitializeShareGroupState",
        "ListConfigResources",
        "ListPartitionReassignments",
        "ReadShareGroupState",
        "RenewDelegationToken",
        "UnregisterBroker",
        "UpdateFeatures",
        "WriteShareGroupState",
        "WriteTxnMarkers",
    }
)
"""APIs that need rights on the cluster."""

READING = frozenset(
    {
        "ApiVersions",
        "ConsumerGroupDescribe",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "Fetch",
        "FindCoordinator",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListPartitionReassignments",
        "ListTransactions",
        "Metadata",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
    }
)
"""APIs that change nothing, apart from topics that Metadata may create."""

WITHOUT_REQUESTS = frozenset({Do.RECEIVE, Do.OUTCOME, Do.SILENT, Do.CLOSE, Do.WAIT, Do.COORDINATOR})


def not_asked(scenario: Scenario, rights: Rights, is_read_only: bool) -> str:
    """Return why a scenario may not be played; empty if it may."""
    for step in scenario.steps:
        if is_read_only and not _is_reading(step):
            return f"{step.api or step.do.value} may change the cluster"
        for api in sorted(_apis(step) & OF_THE_CLUSTER) if rights is Rights.USER else ():
            return f"{api} needs rights on the cluster"
    return ""


def _is_reading(step: Step) -> bool:
    if step.do is Do.RAW:
        apis = _apis(step)
        return bool(apis) and apis <= READING
    if step.do in (Do.CALL, Do.SEND):
        creates = step.api == "Metadata" and (step.body or {}).get("allowAutoTopicCreation", True)
        return step.api in READING and not creates
    return step.do in WITHOUT_REQUESTS


def _apis(step: Step) -> set[str]:
    """Return the APIs of a step; those of raw frames, too."""
    return {step.api} & API_KEYS.keys() | set(_frames(step.body) if step.do is Do.RAW else ())


def _frames(part: Any) -> list[str]:
    if isinstance(part, list):
        return [api for each in part for api in _frames(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$frame"]["api"]] if "$frame" in part else []
    return own + [api for each in part.values() for api in _frames(each)]
