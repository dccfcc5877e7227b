"""Clients that are parts of a broker: their requests are no application's doing."""

import re

from brokertwin.recordings.explain.bodies import follower_of
from brokertwin.recordings.replay.recording import Exchange

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


def is_brokers_own(exchange: Exchange) -> bool:
    """Whether a broker or a controller made the request, and not a client."""
    if exchange.api in OWN_APIS or OWN_IDS.fullmatch(exchange.header.client_id or ""):
        return True
    return exchange.api == "FETCH" and follower_of(exchange.body()) >= 0
