"""Requests that brokers and controllers send, not applications."""

import re
from typing import Any

from brokertwin.recordings.history.bodies import follower_of

OWN_IDS = re.compile(
    r"broker-\d+-(fetcher-\d+|txn-marker-sender|to-controller\S*)"
    r"|(AddPartitionsManager|Persister|PersisterStateManager)-client-\d+"
    r"|raft-client-\d+|controller-\d+-\S*|broker-\d+-\S*-channel-manager"
)
"""The client ids of ReplicaFetcherThread, TransactionMarkerChannelManager, KafkaRaftManager,
AddPartitionsToTxnManager, PersisterStateManager and NodeToControllerChannelManager."""

OWN_APIS = frozenset(
    {
        *("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN"),
        *("ALTER_PARTITION", "ALLOCATE_PRODUCER_IDS", "ENVELOPE", "BROKER_REGISTRATION"),
        *("BROKER_HEARTBEAT", "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "FETCH_SNAPSHOT"),
        *("CONTROLLER_REGISTRATION", "ASSIGN_REPLICAS_TO_DIRS", "UPDATE_RAFT_VOTER"),
        *("INITIALIZE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE"),
        *("DELETE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE_SUMMARY"),
    }
)
"""The APIs that brokers and controllers call among themselves."""


def is_own(api: str, client: str, request: Any) -> bool:
    """Return whether a broker or a controller sent a request."""
    if api in OWN_APIS or OWN_IDS.fullmatch(client):
        return True
    return api == "FETCH" and follower_of(request) >= 0
