"""The addresses of brokers in answers, and how the proxy's are put in their place.

They stand in Metadata, FindCoordinator and DescribeCluster answers, and where a Produce, Fetch,
ShareFetch or ShareAcknowledge answer names a new leader (KIP-951).
"""

from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.gateway.answers import ENDPOINTS_SINCE, Address
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
"""API key to the list of nodes in its answer, and the field with their id."""


def may_have_addresses(api_key: int, version: int) -> bool:
    """Whether answers of the API may have to be rewritten."""
    return api_key in _LISTS and version >= ENDPOINTS_SINCE.get(api_key, 0)


class Node(NamedTuple):
    """A node that an answer names; `place` is the part of the answer with `host` and `port`."""

    node_id: int
    address: Address
    place: Body

    def put(self, address: Address) -> None:
        """Write another address into the answer."""
        self.place["host"], self.place["port"] = address


def nodes_of(api_key: int, response: Body) -> Iterator[Node]:
    """The nodes in an answer that have an address."""
    if api_key not in _LISTS:
        return
    name, id_field = _LISTS[api_key]
    places = list(response.get(name) or ())
    if api_key == FIND_COORDINATOR and name not in response:
        places = [response]  # up to version 3
    for place in places:
        if place.get("host") and place["port"] > 0:
            yield Node(place[id_field], Address(place["host"], place["port"]), place)
