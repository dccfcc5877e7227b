"""What a coordinator knows of a streams group and forgets when it restarts or hands it over.

An item of the table `live_groups`: `<broker>/live-streams/<group>`, with the group's id escaped. It
is written in place. A group that somebody joins first has none until the next heartbeat, as in
Kafka, which takes note of these things in an object that the records then replace.

Source: `StreamsGroup.configuredTopology`, `.metadataRefreshDeadline`, `.shutdownRequestMemberId`,
`.endpointInformationEpoch`, `.endpointToPartitionsCache`, `ExpiringErrorCache` (there of the
broker, for topics of all groups) in Kafka.
"""

import msgspec

from brokertwin.state.core.tables import Tables, escape, unescape
from brokertwin.state.groups.topology_topics import ConfiguredTopology


class FailedTopic(msgspec.Struct, frozen=True):
    """An internal topic that could not be created; tried again after `until` (ms since 1970)."""

    text: str
    until: int


class LiveStreams(msgspec.Struct):
    """What is forgotten.

    Attributes:
        configured: the topology with the topics that there are, as it is shown.
        unseen: the same as a heartbeat has found it at which Kafka failed: it holds from then on,
            and is shown when the next record of the group is written.
        seen_hash: of the topics when the group last got a new epoch, also one that a heartbeat gave
            it in vain; the topics are looked at again where they have changed since.
        seen_epoch: that epoch; they are looked at again, too, while the group is below it.
        shutdown_member_id: who has asked all members to shut down; "" for nobody.
        endpoint_epoch: counts the changes of what is where, for those who ask instances.
        told_of: the members of which somebody was told since they last changed; a member that
            says another endpoint is told its old one once more, as by Kafka, which remembers it.
        failed: internal topics that could not be created, by name.
    """

    configured: ConfiguredTopology | None = None
    unseen: ConfiguredTopology | None = None
    seen_hash: int | None = None
    seen_epoch: int = 0
    shutdown_member_id: str = ""
    endpoint_epoch: int = 0
    told_of: set[str] = set()
    failed: dict[str, FailedTopic] = {}


def get(tables: Tables, broker: int, group_id: str) -> LiveStreams | None:
    """What is known, to be read only."""
    return tables.live_groups.get(_key(broker, group_id), LiveStreams)


def put(tables: Tables, broker: int, group_id: str, live: LiveStreams) -> None:
    """Notes what is known."""
    tables.live_groups.put(_key(broker, group_id), live)


def drop(tables: Tables, broker: int, group_id: str) -> None:
    """Forgets it."""
    tables.live_groups.drop(_key(broker, group_id))


def ids(tables: Tables, broker: int) -> list[str]:
    """The groups of which something is known."""
    prefix = _key(broker, "")
    return [unescape(key.removeprefix(prefix)) for key in tables.live_groups.keys(prefix)]


def _key(broker: int, group_id: str) -> str:
    return f"{broker}/live-streams/{escape(group_id)}"
