"""Volatile state of a streams group, lost by a restart or handover.

Items of the table `live_groups`, written in place: `<broker>/live-streams/<group>` with an escaped
group id. A new group has an item from the second heartbeat on, as in Kafka, where the first
one changes an object that the records then replace.

Source: `StreamsGroup.configuredTopology`, `.metadataRefreshDeadline`, `.shutdownRequestMemberId`,
`.endpointInformationEpoch`, `.endpointToPartitionsCache`, `ExpiringErrorCache` (in Kafka one for
all groups of the broker).
"""

import msgspec

from brokertwin.state.core.tables import MachineTables, escape, unescape
from brokertwin.state.groups.topology_topics import ConfiguredTopology


class FailedTopic(msgspec.Struct, frozen=True):
    """A failed internal topic; retried after `until` (ms since 1970)."""

    text: str
    until: int


class LiveStreams(msgspec.Struct):
    """Volatile state of a group.

    Attributes:
        configured: the configured topology that describe requests see.
        unseen: the topology configured by a heartbeat that failed. It is effective, and becomes
            visible with the next record of the group.
        seen_hash: hash of the topics at the last group epoch, also of a failed heartbeat. Changed
            topics are configured again.
        seen_epoch: that group epoch. Topics are also configured again while the group's epoch is
            below it.
        shutdown_member_id: the member that requested a shutdown of the application; "" if none.
        endpoint_epoch: version of the endpoint information.
        published_members: members whose endpoint was sent to another member since their last
            change. After a change, the old endpoint is sent once more, because Kafka caches it.
        failed: failed internal topics by name.
    """

    configured: ConfiguredTopology | None = None
    unseen: ConfiguredTopology | None = None
    seen_hash: int | None = None
    seen_epoch: int = 0
    shutdown_member_id: str = ""
    endpoint_epoch: int = 0
    published_members: set[str] = msgspec.field(default_factory=set, name="told_of")
    failed: dict[str, FailedTopic] = {}


def get(at: MachineTables, group_id: str) -> LiveStreams | None:
    """Return the volatile state, read-only."""
    return at.tables.live_groups.get(_key(at.id, group_id), LiveStreams)


def put(at: MachineTables, group_id: str, live: LiveStreams) -> None:
    at.tables.live_groups.put(_key(at.id, group_id), live)


def drop(at: MachineTables, group_id: str) -> None:
    at.tables.live_groups.drop(_key(at.id, group_id))


def ids(at: MachineTables) -> list[str]:
    prefix = _key(at.id, "")
    return [unescape(key.removeprefix(prefix)) for key in at.tables.live_groups.keys(prefix)]


def _key(broker: int, group_id: str) -> str:
    return f"{broker}/live-streams/{escape(group_id)}"
