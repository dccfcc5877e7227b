"""Broker addresses in responses, and their replacement by the proxy's.

They occur in Metadata, FindCoordinator and DescribeCluster responses, and if a Produce, Fetch,
ShareFetch or ShareAcknowledge response names a new leader (KIP-951).
"""

from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.gateway.edge_fields import ENDPOINTS_SINCE, Address
from brokertwin.gateway.protocol.codec import Body

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 0, 1, 3, 10, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79

_LISTS = {
    PRODUCE: ("nodeEndpoints", "nodeId"),
    FETCH: ("nodeEndpoints", "nodeId"),
    METADATA: ("brokers", "nodeId"),
    FIND_COORDINATOR: ("coordinators", "nodeId"),
    DESCRIBE_CLUSTER: ("brokers", "brokerId"),
    SHARE_FETCH: ("nodeEndpoints", "nodeId"),
    SHARE_ACKNOWLEDGE: ("nodeEndpoints", "nodeId"),
}
"""API key to the list of nodes in its response, and the field of their id."""


def may_have_addresses(api_key: int, version: int) -> bool:
    """True if responses of the API may have to be rewritten."""
    return api_key in _LISTS and version >= ENDPOINTS_SINCE.get(api_key, 0)


class AdvertisedNode(NamedTuple):
    """Node named in a response; `place` is the part with `host` and `port`."""

    node_id: int
    address: Address
    place: Body

    def put(self, address: Address) -> None:
        """Write another address into the response."""
        self.place["host"], self.place["port"] = address


def nodes_of(api_key: int, response: Body) -> Iterator[AdvertisedNode]:
    """Return the nodes of a response that have an address."""
    if api_key not in _LISTS:
        return
    name, id_field = _LISTS[api_key]
    places = list(response.get(name) or ())
    if api_key == FIND_COORDINATOR and name not in response:
        places = [response]  # up to version 3
    for place in places:
        if place.get("host") and place["port"] > 0:
            yield AdvertisedNode(place[id_field], Address(place["host"], place["port"]), place)
