"""Models of share groups: locks expire, responses are lost."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Faults, Model, Send
from brokertwin.simulation.explore.invariants import CellHolds, DeliveredAndCounted, HeldByOne
from brokertwin.simulation.explore.models.producers import RecordDeleter
from brokertwin.state.cluster.config_changes import GROUP
from brokertwin.state.share.share_partition import ACCEPT, REJECT, RELEASE

DELIVERIES_MAX = 2
"""The lowest value of group.share.delivery.count.limit."""


class SharerState(NamedTuple):
    """State of a member: epochs of member and session, acquired records, and fetches so far."""

    epoch: int = 0
    is_assigned: bool = False
    session: int = 0
    held: tuple[int, int] | None = None
    fetches: int = 0


class Sharer(Client):
    """A member of the share group `work` that fetches from input-0.

    With the next fetch it acknowledges the records; before that it may be slow.

    Args:
        fetches: fetches with a response.
        kinds: how it may acknowledge each of the records.
        records: most records of a fetch.
    """

    start = SharerState()

    def __init__(
        self, name: str, fetches: int, kinds: Sequence[int] = (ACCEPT, RELEASE), records: int = 1
    ) -> None:
        self.name = name
        self._kinds, self._records = kinds, records
        self._id = requests.topic_id(name)
        self._fetches = fetches

    def sends(self, state: SharerState) -> Iterable[Send]:
        """Return a heartbeat until there is an assignment; then the next fetch."""
        if not state.is_assigned:
            body: dict[str, Any] = {
                "groupId": "work",
                "memberId": self._id,
                "memberEpoch": state.epoch,
            }
            if state.epoch == 0:
                body["subscribedTopicNames"] = ["input"]
            label = f"heartbeat, epoch {state.epoch}"
            api = "SHARE_GROUP_HEARTBEAT"
            return [Send(api=api, version=1, body=body, label=label, may_be_late=False)]
        if state.fetches == self._fetches:
            return []
        if state.held is None or state.session == 0:
            return [self._fetch(state, [])]
        first, last = state.held
        return [
            self._fetch(
                state,
                [{"firstOffset": first, "lastOffset": last, "acknowledgeTypes": _types(kinds)}],
            )
            for kinds in product(self._kinds, repeat=last - first + 1)
        ]

    def _fetch(self, state: SharerState, acknowledged: list[dict[str, Any]]) -> Send:
        partition = {"partitionIndex": 0, "acknowledgementBatches": acknowledged}
        body = {
            "groupId": "work",
            "memberId": self._id,
            "shareSessionEpoch": state.session,
            "maxWaitMs": 0,
            "minBytes": 0,
            "maxBytes": 2**20,
            "maxRecords": self._records,
            "batchSize": self._records,
            "topics": [{"topicId": requests.topic_id("input"), "partitions": [partition]}],
            "forgottenTopicsData": [],
        }
        words = {ACCEPT: "accepts", RELEASE: "releases", REJECT: "rejects"}
        kinds = acknowledged[0]["acknowledgeTypes"] if acknowledged else []
        label = ", ".join(["ShareFetch", *(words[kind] for kind in kinds)])
        return Send(api="SHARE_FETCH", version=1, body=body, label=label)

    def receives(self, state: SharerState, send: Send, response: Any) -> SharerState:
        """Take an assignment, or a record; begin a session again after an error."""
        if send.api == "SHARE_GROUP_HEARTBEAT":
            assignment = response.assignment
            is_assigned = assignment is not None and bool(assignment.topic_partitions)
            return state._replace(epoch=response.member_epoch, is_assigned=is_assigned)
        if response is None:
            return state._replace(session=0, held=None)
        fetches = state.fetches + 1
        if response.error_code != Error.NONE:
            return state._replace(session=0, held=None, fetches=fetches)
        acquired = [
            each
            for topic in response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]
        held = (acquired[0].first_offset, acquired[-1].last_offset) if acquired else None
        return state._replace(session=state.session + 1, held=held, fetches=fetches)


def _types(kinds: Sequence[int]) -> list[int]:
    """Return the types of the records: one, if they are the same."""
    return list(kinds) if len(set(kinds)) > 1 else [kinds[0]]


def _cluster(*records: str) -> Cluster:
    """Return a broker with records of input-0, which the group reads from the start."""
    configs = [{"name": "share.auto.offset.reset", "value": "earliest", "configOperation": 0}]
    resource = {"resourceType": GROUP, "resourceName": "work", "configs": configs}
    body = {"resources": [resource], "validateOnly": False}
    earliest = Send(api="INCREMENTAL_ALTER_CONFIGS", version=1, body=body, label="earliest")
    return Cluster(
        topics={"input": 1},
        groups=("work",),
        settings={"group.share.delivery.count.limit": str(DELIVERIES_MAX)},
        setup=(earliest, *(requests.produce("input", 0, record) for record in records)),
    )


def shared() -> Model:
    """A member that accepts and releases records, or keeps them until their locks expire."""
    return Model(
        name="share-group",
        about="KIP-932: locks expire, responses are lost; how often is a record delivered?",
        clients=(Sharer("sharer-1", 4),),
        cluster=_cluster("r0"),
        faults=Faults(lost=1, waits=2, wait_ms=31_000),
        invariants=(DeliveredAndCounted("work", DELIVERIES_MAX), CellHolds()),
    )


def rivals() -> Model:
    """Two members that share records, the first of which is deleted."""
    kinds = ACCEPT, RELEASE, REJECT
    members = (Sharer(name, 2, kinds, 2) for name in ("sharer-1", "sharer-2"))
    return Model(
        name="share-rivals",
        about="KIP-932: two members; is a record delivered to both, or after it was accepted?",
        clients=(*members, RecordDeleter("input", 1)),
        cluster=_cluster("r0,r1", "r2"),
        invariants=(DeliveredAndCounted("work", DELIVERIES_MAX), HeldByOne(), CellHolds()),
    )


def models() -> Iterator[Model]:
    yield shared()
    yield rivals()
