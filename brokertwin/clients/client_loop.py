"""The event loop of a client, without sockets.

Source: seed 001; `NetworkClient`, `ConsumerNetworkClient`, `Sender.runOnce` in Kafka; KIP-35,
KIP-511 (versions), KIP-601. The driver (`clients/driver.py`) repeats:

    turn(now)              connections to open and close, requests to send, time to wait
    (network I/O for that time)
    take(now, event)       a connection opened or closed, or a response arrived

The first request of a connection is ApiVersions. Later requests use the newest version that both
sides support, within the versions that the request allows. A request without a common version
fails, and `unsupported` names its API. The ApiVersions response also has the cluster's finalized
features (KIP-584). Requests to a node are sent in order. Times are ms on the driver's monotonic
clock; `draw` returns numbers in [0, 1).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients import consumer_requests
from brokertwin.clients.metadata import Metadata, RequestAndVersion
from brokertwin.clients.network import Connect, Draw, NetworkClient, NetworkSettings
from brokertwin.clients.node_connections import UNLIMITED_MS, ConnectionState
from brokertwin.clients.partitions import Node
from brokertwin.clients.transaction_rules import Versions
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnResponse
from brokertwin.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnResponse
from brokertwin.protocol.generated.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from brokertwin.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from brokertwin.protocol.generated.delete_records import DeleteRecordsResponse
from brokertwin.protocol.generated.end_txn import EndTxnResponse
from brokertwin.protocol.generated.fetch import FetchResponse
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.list_offsets import ListOffsetsResponse
from brokertwin.protocol.generated.metadata import MetadataResponse
from brokertwin.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
)
from brokertwin.protocol.generated.produce import ProduceResponse
from brokertwin.protocol.generated.share_acknowledge import ShareAcknowledgeResponse
from brokertwin.protocol.generated.share_fetch import ShareFetchResponse
from brokertwin.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatResponse
from brokertwin.protocol.generated.txn_offset_commit import TxnOffsetCommitResponse
from brokertwin.protocol.kafka_apis import API_VERSIONS, KAFKA_APIS

SUPPORTED_VERSIONS: Mapping[str, tuple[int, int]] = {
    "PRODUCE": (3, 12),
    "FETCH": (4, 18),
    "LIST_OFFSETS": (1, 11),
    "OFFSET_FOR_LEADER_EPOCH": (3, 4),
    "METADATA": (4, 13),
    "OFFSET_COMMIT": (2, 9),
    "OFFSET_FETCH": (8, 9),
    "FIND_COORDINATOR": (4, 6),
    "JOIN_GROUP": (2, 9),
    "HEARTBEAT": (0, 4),
    "LEAVE_GROUP": (3, 5),
    "SYNC_GROUP": (0, 5),
    "CONSUMER_GROUP_HEARTBEAT": (1, 1),
    "SHARE_GROUP_HEARTBEAT": (1, 1),
    "SHARE_FETCH": (1, 2),
    "SHARE_ACKNOWLEDGE": (1, 2),
    "INIT_PRODUCER_ID": (0, 5),
    "ADD_PARTITIONS_TO_TXN": (0, 3),
    "ADD_OFFSETS_TO_TXN": (0, 4),
    "TXN_OFFSET_COMMIT": (3, 5),
    "END_TXN": (0, 5),
    "DELETE_RECORDS": (0, 2),
}
"""The first and last version that clients use, as in Kafka 3.0 and later.

The transaction protocol limits Produce, TxnOffsetCommit and EndTxn further.
"""

RESPONSES: dict[str, type[Body]] = {
    "PRODUCE": ProduceResponse,
    "FETCH": FetchResponse,
    "LIST_OFFSETS": ListOffsetsResponse,
    "OFFSET_FOR_LEADER_EPOCH": OffsetForLeaderEpochResponse,
    "METADATA": MetadataResponse,
    "INIT_PRODUCER_ID": InitProducerIdResponse,
    "API_VERSIONS": ApiVersionsResponse,
    "ADD_PARTITIONS_TO_TXN": AddPartitionsToTxnResponse,
    "ADD_OFFSETS_TO_TXN": AddOffsetsToTxnResponse,
    "TXN_OFFSET_COMMIT": TxnOffsetCommitResponse,
    "END_TXN": EndTxnResponse,
    "DELETE_RECORDS": DeleteRecordsResponse,
    "CONSUMER_GROUP_HEARTBEAT": ConsumerGroupHeartbeatResponse,
    "SHARE_GROUP_HEARTBEAT": ShareGroupHeartbeatResponse,
    "SHARE_FETCH": ShareFetchResponse,
    "SHARE_ACKNOWLEDGE": ShareAcknowledgeResponse,
    **consumer_requests.RESPONSES,
}
_known = [msgspec.json.Decoder(each) for each in RESPONSES.values()]
"""Builds the msgspec decoders before threads start.

msgspec crashes if two threads use a type for the first time at once.
"""
API_VERSIONS_VERSION = 4
SOFTWARE = ApiVersionsRequest(client_software_name="brokertwin", client_software_version="1")


class Close(msgspec.Struct, frozen=True):
    """Close the connection to a node; no event follows."""

    node: int


class Send(msgspec.Struct, frozen=True):
    """Send a request; its response arrives under `request_id` if expected.

    `body` has no record bytes. `batches` names the producer batches to encode.
    """

    node: int
    request_id: int
    api: str
    version: int
    body: Body
    batches: list[Any] = []
    expects_response: bool = True


Action = Connect | Close | Send


class LoopTurn(NamedTuple):
    """The actions in order, then how long to wait for events, in ms."""

    actions: list[Action]
    timeout_ms: int


class Connected(msgspec.Struct, frozen=True):
    """A connection is open."""

    node: int


class Disconnected(msgspec.Struct, frozen=True):
    """A connection is closed or failed to open."""

    node: int


class ResponseReceived(msgspec.Struct, frozen=True):
    """A response: its body by Kafka's field names, without record bytes.

    `records` has the decoded records of each partition (`clients/fetcher.py`), by topic name or id
    and partition.
    """

    node: int
    request_id: int
    body: Mapping[str, Any]
    records: Mapping[tuple[str, int], Any] = {}


NetworkEvent = Connected | Disconnected | ResponseReceived


class InFlightRequest(NamedTuple):
    """A request without a response yet; `tag` belongs to the sender."""

    node: int
    api: str
    version: int
    tag: Any


class UnsentRequest(NamedTuple):
    """A request waiting for a connection; any node will do if `node` is None.

    `versions`: the allowed versions; None allows all.
    """

    node: Node | None
    api: str
    body: Body
    tag: Any
    timeout_ms: int | None = None
    versions: Versions | None = None


class ClientLoop(ABC):
    """Connections, metadata and requests of a client; subclasses add the rest.

    Attributes:
        unsupported: an API without a common version.
        features: finalized features of the cluster and their levels.
    """

    def __init__(
        self, metadata: Metadata, draw: Draw, settings: NetworkSettings | None = None
    ) -> None:
        self.metadata = metadata
        self.network = NetworkClient(metadata, draw, settings)
        self.unsupported: str | None = None
        self.features: dict[str, int] = {}
        self._features_epoch = -1
        self._actions: list[Action] = []
        self._waiting: list[UnsentRequest] = []
        self._in_flight: dict[int, InFlightRequest] = {}
        self._handshakes: dict[int, int] = {}
        self._versions: dict[int, dict[str, Versions]] = {}
        self._last_id = 0

    # Hooks

    @abstractmethod
    def _work(self, now: int) -> None:
        """Do the due work."""

    @abstractmethod
    def _deadlines(self, now: int) -> list[int]:
        """Return when `_work` may have something to do."""

    @abstractmethod
    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        """Handle a response to one of the subclass's requests."""

    @abstractmethod
    def _failed(self, now: int, tag: Any) -> None:
        """Handle a request that gets no response."""

    @abstractmethod
    def _lost(self, now: int, node: int) -> None:
        """Handle a closed connection, after `_failed` for its requests."""

    # Driver

    def turn(self, now: int) -> LoopTurn:
        for node in self.network.overdue(now):
            self._actions.append(Close(node))
            self._disconnected(now, node)
        self._work(now)
        self._send_waiting(now)
        times = [time - now for time in self._deadlines(now)]
        times += [
            self.network.poll_delay_ms(request.node.id, now)
            for request in self._waiting
            if request.node is not None
        ]
        poll = self.network.poll(max(min(times, default=UNLIMITED_MS), 0), now)
        for action in poll.actions:
            if isinstance(action, Connect):
                self._actions.append(action)
            else:
                self._put(
                    now,
                    action.node.id,
                    self.next_id(),
                    "METADATA",
                    action.sent.request,
                    tag=action.sent,
                )
        actions, self._actions = self._actions, []
        return LoopTurn(actions, poll.select_timeout_ms)

    def take(self, now: int, event: NetworkEvent) -> None:
        """Handle an event; events of closed connections are ignored."""
        match event:
            case Connected(node):
                if self.network.connections.is_connecting(node):
                    self._shake_hands(node, API_VERSIONS_VERSION)
            case Disconnected(node):
                self._disconnected(now, node)
            case ResponseReceived() if event.request_id in self._handshakes:
                self._greeted(now, event)
            case ResponseReceived():
                self._take_response(now, event)

    @property
    def is_quiet(self) -> bool:
        """Whether no request is pending or in flight, except one that may wait for records."""
        is_busy = any(not self._may_be_dropped(request) for request in self._in_flight.values())
        return not is_busy and not self._waiting

    def _may_be_dropped(self, request: InFlightRequest) -> bool:
        """Whether a closing client does not wait for the response."""
        return request.api == "FETCH"

    # Connections

    def _shake_hands(self, node: int, version: int) -> None:
        request_id = self.next_id()
        self._handshakes[request_id] = node
        self._actions.append(Send(node, request_id, "API_VERSIONS", version, SOFTWARE))

    def _greeted(self, now: int, event: ResponseReceived) -> None:
        node = self._handshakes.pop(event.request_id)
        response = msgspec.convert(event.body, ApiVersionsResponse)
        throttle_ms = response.throttle_time_ms
        self.network.throttled(node, "API_VERSIONS", API_VERSIONS_VERSION, throttle_ms, now)
        offered = {
            KAFKA_APIS[each.api_key].name: (each.min_version, each.max_version)
            for each in response.api_keys
            if each.api_key in KAFKA_APIS
        }
        if response.error_code == Error.UNSUPPORTED_VERSION:
            _, newest = offered.get(API_VERSIONS.name, (0, 0))
            self._shake_hands(node, min(newest, API_VERSIONS_VERSION - 1))
            return
        self._versions[node] = {
            api: (max(oldest, offered[api][0]), min(newest, offered[api][1]))
            for api, (oldest, newest) in SUPPORTED_VERSIONS.items()
            if api in offered and offered[api][0] <= newest and oldest <= offered[api][1]
        }
        self._learn_features(response)
        self.network.connected(node)

    def _learn_features(self, response: ApiVersionsResponse) -> None:
        """Take over the features, unless another broker has newer ones.

        Kafka's client ignores a second response of the same epoch because it is equal. The epoch of
        a gateway is always 0.
        """
        epoch = response.finalized_features_epoch
        if epoch >= max(self._features_epoch, 0):
            self._features_epoch = epoch
            self.features = {
                each.name: each.max_version_level for each in response.finalized_features
            }

    def _disconnected(self, now: int, node: int) -> None:
        if self.network.connections.state(node) in (None, ConnectionState.DISCONNECTED):
            return
        self._drop(now, node)
        self._forget(now, node)
        self._lost(now, node)

    def _drop(self, now: int, node: int) -> None:
        """Close the connection; subclasses may do more."""
        self.network.disconnected(node, now)

    def _forget(self, now: int, node: int) -> None:
        """Fail the requests on a connection and those waiting for it."""
        self._versions.pop(node, None)
        self._handshakes = {key: at for key, at in self._handshakes.items() if at != node}
        lost = [key for key, request in self._in_flight.items() if request.node == node]
        tags = [self._in_flight.pop(key).tag for key in lost]
        tags += [each.tag for each in self._waiting if each.node and each.node.id == node]
        self._waiting = [each for each in self._waiting if not each.node or each.node.id != node]
        for tag in tags:
            if not isinstance(tag, RequestAndVersion):
                self._failed(now, tag)

    # Requests

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def version(self, node: int, api: str, within: Versions | None = None) -> int | None:
        """Return the newest common version of an API, or None. `within` limits the version."""
        common = self._versions.get(node, {}).get(api)
        if common is None:
            return None
        first, last = within or common
        newest = min(last, common[1])
        return newest if newest >= max(first, common[0]) else None

    def _want(self, request: UnsentRequest) -> None:
        self._waiting.append(request)

    def _send_waiting(self, now: int) -> None:
        waiting, self._waiting = self._waiting, []
        held: set[int] = set()
        for request in waiting:
            node = request.node or self.network.least_loaded_node(now)
            if node is None or node.id in held or not self.network.ready(node, now):
                held.update([node.id] if node is not None else [])
                self._waiting.append(request)
                continue
            request_id = self.next_id()
            is_put = self._put(
                now,
                node.id,
                request_id,
                request.api,
                request.body,
                tag=request.tag,
                versions=request.versions,
            )
            if is_put:
                self.network.sent(node.id, request_id, now, request.timeout_ms)

    def _put(
        self,
        now: int,
        node: int,
        request_id: int,
        api: str,
        body: Body,
        *,
        tag: Any,
        batches: list[Any] | None = None,
        expects_response: bool = True,
        versions: Versions | None = None,
    ) -> bool:
        """Send a request; returns False if the node does not support it."""
        version = self.version(node, api, versions)
        if version is None:
            self.unsupported = api
            if not isinstance(tag, RequestAndVersion):
                self._failed(now, tag)
            return False
        if expects_response:
            self._in_flight[request_id] = InFlightRequest(node, api, version, tag)
        self._actions.append(
            Send(node, request_id, api, version, body, batches or [], expects_response)
        )
        return True

    def _take_response(self, now: int, event: ResponseReceived) -> None:
        request = self._in_flight.pop(event.request_id, None)
        if request is None:
            return
        response = msgspec.convert(event.body, RESPONSES[request.api])
        throttle_ms = event.body.get("throttleTimeMs", 0)
        self.network.throttled(request.node, request.api, request.version, throttle_ms, now)
        if isinstance(response, MetadataResponse):
            self.network.on_metadata_response(request.node, response, request.version, now)
            return
        self.network.on_response(request.node, event.request_id)
        self._on_response(now, request, response, event)
