"""Topics whose log ends a replay does not know.

A request log has no batch headers. A replay appends nothing for such a Produce, so the ends of its
logs say nothing about a group's lag.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.recordings.replay.recording import Exchange

if TYPE_CHECKING:
    from brokertwin.recordings.replay.kept import KeptState

PRODUCE = "PRODUCE"


def topics_without_headers(
    exchanges: Iterable[Exchange], begins: "KeptState | None" = None
) -> frozenset[str]:
    """Return names or ids of topics with a Produce request without batch headers.

    `begins` is the state that the requests continue from.
    """
    topics: frozenset[str] = begins.without_ends if begins is not None else frozenset()
    return topics.union(
        name
        for exchange in exchanges
        if exchange.api == PRODUCE
        for topic in (exchange.body() or {}).get("topicData") or ()
        for name in (topic.get("name"), topic.get("topicId"))
        if name and name != ZERO_UUID
        if any(not each.get("batches") for each in topic.get("partitionData") or ())
    )
