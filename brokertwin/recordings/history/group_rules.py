"""Kafka's rules about the members of a group, with advice."""

from brokertwin.recordings.rules import Rule

REBALANCE = Rule(
    "Members that join, leave or are not heard of begin a rebalance, for which all of them stop.",
    "ClassicGroup, GroupMetadataManager; KIP-62, KIP-345, KIP-848",
    "Look at who began them: give instances that restart a group.instance.id, poll faster or raise"
    " max.poll.interval.ms where members are dropped, deploy fewer members at a time.",
)
DROPPED = Rule(
    "A member that sends no heartbeat for session.timeout.ms, or does not poll for"
    " max.poll.interval.ms, is not in the next generation.",
    "KIP-62; ClassicGroup, GroupMetadataManager",
    "Look for pauses of its process (GC, slow records) and for lost connections; fewer"
    " max.poll.records or a greater max.poll.interval.ms. A static member has no other way to go.",
)
MAX_POLL = Rule(
    "A consumer that does not poll for max.poll.interval.ms leaves its group. Its next poll joins"
    " again.",
    "KIP-62, KIP-800; AbstractCoordinator.HeartbeatThread",
    "Its records take too long: lower max.poll.records, make the processing faster, or raise"
    " max.poll.interval.ms.",
)
CAME_BACK = Rule(
    "A member that leaves and joins again begins two rebalances.",
    "KIP-62, KIP-345; AbstractCoordinator.maybeLeaveGroup",
    "It is the same process, because it uses the same connection or member id. Look whether it"
    " exceeded max.poll.interval.ms or subscribes again: only newer Java clients give a reason.",
)
UNUSED_ID = Rule(
    "A client without a member id is given one and has to join with it. Until it does, or"
    " session.timeout.ms is over, a rebalance waits for it.",
    "KIP-394; ClassicGroup.addPendingMember, hasAllMembersJoined",
    "Look at the client that asked for the id: it was stopped between its two requests, or its"
    " request timed out. A shorter session.timeout.ms shortens the wait.",
)
