"""Broker addresses in responses, and their replacement by the proxy's.

They occur in Metadata, FindCoordinator and DescribeCluster responses, and if a Produce, Fetch,
ShareFetch or ShareAcknowledge response names a new leader (KIP-951).
"""

from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.codec import Body
from brokertwin.protocol.kafka_apis import (
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    api_of_key,
)

_LISTS = {
    PRODUCE.key: ("nodeEndpoints", "nodeId"),
    FETCH.key: ("nodeEndpoints", "nodeId"),
    METADATA.key: ("brokers", "nodeId"),
    FIND_COORDINATOR.key: ("coordinators", "nodeId"),
    DESCRIBE_CLUSTER.key: ("brokers", "brokerId"),
    SHARE_FETCH.key: ("nodeEndpoints", "nodeId"),
    SHARE_ACKNOWLEDGE.key: ("nodeEndpoints", "nodeId"),
}
"""API key to the list of nodes in its response, and the field of their id."""


def may_have_addresses(api_key: int, version: int) -> bool:
    return api_key in _LISTS and version >= (api_of_key(api_key).endpoints_since or 0)


class AdvertisedNode(NamedTuple):
    """Node named in a response; `place` is the part with `host` and `port`."""

    node_id: int
    address: Address
    place: Body

    def put(self, address: Address) -> None:
        self.place["host"], self.place["port"] = address


def nodes_of(api_key: int, response: Body) -> Iterator[AdvertisedNode]:
    if api_key not in _LISTS:
        return
    name, id_field = _LISTS[api_key]
    places = list(response.get(name) or ())
    if api_key == FIND_COORDINATOR.key and name not in response:
        places = [response]  # up to version 3
    for place in places:
        if place.get("host") and place["port"] > 0:
            yield AdvertisedNode(place[id_field], Address(place["host"], place["port"]), place)
