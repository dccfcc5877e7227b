"""Rules of what an ACL denies that are broken on purpose; `planted.py` has the others."""

from tests.planted.planting import Planted

PLANTED_DENIALS: tuple[Planted, ...] = (
    Planted(
        "denied-reads",
        "who may not read a topic gets none of its records",
        "brokertwin.state.apis.fetch",
        "    return broker.denied_topics(request, Operation.READ, names)\n",
        "    return frozenset()\n",
    ),
    Planted(
        "denied-members",
        "who may not read in a group is no member of it",
        "brokertwin.state.apis.consumer_group_heartbeat",
        "    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):",
        "    if False:",
    ),
)
