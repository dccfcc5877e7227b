"""Planted deviations: a proxy changes responses of a gateway, and the exam has to find it.

python -m tests.exam.planted [more | ignored]    # a line for each; exit code 1 if one is not found
"""

import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.frames import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from brokertwin.protocol.primitives import MalformedError, NotEncodableError
from brokertwin.protocol.schemas import API_NAMES, MESSAGES
from brokertwin.testing.exam.examination import ExamOptions, examine
from brokertwin.testing.exam.model import Do, ExamSubject, Scenario, selected
from brokertwin.testing.exam.reports import described
from brokertwin.testing.exam.site import look
from brokertwin.testing.exam.verdicts import Outcome, Result
from tests.support.gateways import running_gateway

SCENARIOS_MAX = 60
"""Of more scenarios that compare a response of an API, only each second or third is played."""

LIMIT_S = 20

_SIZE = struct.Struct(">i")

Change = Callable[[Any], Any]
"""Returns a changed response body."""


class Plant(NamedTuple):
    api: str
    what: str
    change: Change
    is_of_requests: bool = False


def _walk(value: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Apply a change to each map of a body, in place."""
    if isinstance(value, dict):
        for part in value.values():
            _walk(part, change)
        change(value)
    elif isinstance(value, list):
        for part in value:
            _walk(part, change)
    return value


def code(api: str, before: int, after: int = 0) -> Plant:
    def change(found: dict[str, Any]) -> None:
        for name in ("errorCode", "partitionErrorCode", "acknowledgeErrorCode"):
            if found.get(name) == before:
                found[name] = after

    return Plant(api, f"error {before} becomes {after}", lambda body: _walk(body, change))


def add(api: str, field: str, number: int = 1) -> Plant:
    def change(found: dict[str, Any]) -> None:
        if isinstance(found.get(field), int) and found[field] >= 0:
            found[field] += number

    return Plant(api, f"{field} {number:+d}", lambda body: _walk(body, change))


def drop(api: str, field: str) -> Plant:
    def change(found: dict[str, Any]) -> None:
        if found.get(field):
            found[field] = found[field][:-1]

    return Plant(api, f"the last of {field} is missing", lambda body: _walk(body, change))


def put(api: str, field: str, value: Any) -> Plant:
    def change(found: dict[str, Any]) -> None:
        if field in found:
            found[field] = value

    return Plant(api, f"{field} is {value!r}", lambda body: _walk(body, change))


def ignore(api: str, field: str, value: Any) -> Plant:
    """Set a field of all requests to a default: the broker does not read it."""
    change = put(api, field, value).change
    return Plant(api, f"{field} is ignored", change, is_of_requests=True)


PLANTS = (
    add("Produce", "baseOffset"),
    code("Produce", 45),
    code("Produce", 47),
    code("Produce", 87),
    add("Produce", "logStartOffset"),
    add("InitProducerId", "producerEpoch"),
    code("InitProducerId", 50),
    add("DescribeProducers", "lastSequence"),
    code("EndTxn", 48),
    code("EndTxn", 90),
    code("AddPartitionsToTxn", 90),
    code("AddOffsetsToTxn", 49),
    code("TxnOffsetCommit", 22),
    put("DescribeTransactions", "transactionState", "Empty"),
    drop("ListTransactions", "transactionStates"),
    add("Fetch", "highWatermark"),
    add("Fetch", "lastStableOffset", -1),
    put("Fetch", "abortedTransactions", []),
    drop("Fetch", "partitions"),
    code("Fetch", 71),
    code("Fetch", 1),
    put("Fetch", "records", b""),
    add("JoinGroup", "generationId"),
    code("JoinGroup", 25),
    put("SyncGroup", "assignment", b""),
    code("Heartbeat", 27),
    code("Heartbeat", 22),
    code("LeaveGroup", 25),
    put("DescribeGroups", "groupState", "Stable"),
    put("ListGroups", "groupType", "consumer"),
    code("DeleteGroups", 68),
    code("ConsumerGroupHeartbeat", 110),
    drop("ConsumerGroupHeartbeat", "partitions"),
    drop("ConsumerGroupDescribe", "members"),
    add("ShareFetch", "deliveryCount"),
    code("ShareFetch", 123),
    code("ShareAcknowledge", 42),
    code("ShareGroupHeartbeat", 110),
    code("StreamsGroupHeartbeat", 110),
    drop("StreamsGroupDescribe", "subtopologies"),
    code("OffsetCommit", 12),
    add("OffsetFetch", "committedOffset"),
    put("OffsetFetch", "metadata", ""),
    code("OffsetDelete", 86),
    add("ListOffsets", "offset"),
    code("ListOffsets", 75),
    add("OffsetForLeaderEpoch", "endOffset"),
    add("DeleteRecords", "lowWatermark"),
    add("Metadata", "leaderEpoch"),
    code("Metadata", 100, 3),
    code("CreateTopics", 36),
    add("CreateTopics", "numPartitions"),
    code("DeleteTopics", 100),
    code("CreatePartitions", 37),
    add("DescribeConfigs", "configSource"),
    code("IncrementalAlterConfigs", 40),
    code("AlterClientQuotas", 42),
    put("DescribeClientQuotas", "entries", []),
    code("ElectLeaders", 84),
    code("ApiVersions", 42),
)

MORE_PLANTS = (
    code("Produce", 10),
    code("Produce", 18),
    code("Produce", 6),
    put("Produce", "throttleTimeMs", 0),
    put("Produce", "logAppendTimeMs", 7),
    code("Produce", 47, 90),
    code("Fetch", 70),
    code("Fetch", 74),
    put("Fetch", "throttleTimeMs", 0),
    add("Fetch", "logStartOffset"),
    put("Fetch", "preferredReadReplica", 1),
    code("Metadata", 3, 5),
    put("Metadata", "isInternal", True),
    put("Metadata", "throttleTimeMs", 0),
    drop("Metadata", "replicaNodes"),
    code("ListOffsets", 74),
    add("ListOffsets", "leaderEpoch"),
    put("ListOffsets", "timestamp", 5),
    code("OffsetCommit", 22, 25),
    code("OffsetFetch", 88),
    put("OffsetFetch", "committedLeaderEpoch", 0),
    code("FindCoordinator", 15, 16),
    code("JoinGroup", 79),
    code("JoinGroup", 23, 42),
    put("JoinGroup", "protocolName", "x"),
    code("SyncGroup", 27, 22),
    code("LeaveGroup", 82),
    put("DescribeGroups", "protocolData", "x"),
    code("ConsumerGroupHeartbeat", 128),
    add("ConsumerGroupHeartbeat", "memberEpoch"),
    put("ConsumerGroupHeartbeat", "heartbeatIntervalMs", 1),
    code("ShareFetch", 6),
    drop("ShareFetch", "acquiredRecords"),
    put("ShareFetch", "acquisitionLockTimeoutMs", 1),
    code("EndTxn", 47),
    code("InitProducerId", 42),
    add("InitProducerId", "producerId"),
    code("CreateTopics", 89),
    code("CreateTopics", 17, 42),
    code("AlterClientQuotas", 42),
    drop("DescribeClientQuotas", "entries"),
    code("IncrementalAlterConfigs", 40, 42),
    put("DescribeConfigs", "isSensitive", True),
    code("ElectLeaders", 84),
    code("DescribeTransactions", 105),
    put("ListGroups", "protocolType", "x"),
    drop("AddPartitionsToTxn", "resultsByTopicV3AndBelow"),
    code("TxnOffsetCommit", 25, 0),
)
"""Deviations that were planted after the scenarios were written."""

IGNORED = (
    ignore("CreateTopics", "validateOnly", False),
    ignore("CreatePartitions", "validateOnly", False),
    ignore("IncrementalAlterConfigs", "validateOnly", False),
    ignore("Fetch", "minBytes", 0),
    ignore("Fetch", "maxBytes", 0x7FFFFFFF),
    ignore("Fetch", "partitionMaxBytes", 0x7FFFFFFF),
    ignore("Fetch", "isolationLevel", 0),
    ignore("Fetch", "currentLeaderEpoch", -1),
    ignore("Fetch", "lastFetchedEpoch", -1),
    ignore("Fetch", "forgottenTopicsData", []),
    ignore("Fetch", "sessionEpoch", -1),
    ignore("ListOffsets", "isolationLevel", 0),
    ignore("ListOffsets", "currentLeaderEpoch", -1),
    ignore("OffsetForLeaderEpoch", "currentLeaderEpoch", -1),
    ignore("OffsetFetch", "requireStable", False),
    ignore("OffsetFetch", "memberEpoch", -1),
    ignore("OffsetCommit", "committedLeaderEpoch", -1),
    ignore("OffsetCommit", "groupInstanceId", None),
    ignore("OffsetCommit", "generationIdOrMemberEpoch", -1),
    ignore("TxnOffsetCommit", "generationId", -1),
    ignore("TxnOffsetCommit", "groupInstanceId", None),
    ignore("JoinGroup", "rebalanceTimeoutMs", 1),
    ignore("JoinGroup", "groupInstanceId", None),
    ignore("SyncGroup", "protocolName", None),
    ignore("SyncGroup", "groupInstanceId", None),
    ignore("Heartbeat", "groupInstanceId", None),
    ignore("Heartbeat", "generationId", 1),
    ignore("InitProducerId", "producerEpoch", -1),
    ignore("InitProducerId", "transactionTimeoutMs", 60_000),
    ignore("Produce", "transactionalId", None),
    ignore("Produce", "acks", 1),
    ignore("Metadata", "allowAutoTopicCreation", True),
    ignore("ListGroups", "statesFilter", []),
    ignore("ListGroups", "typesFilter", []),
    ignore("ListTransactions", "producerIdFilters", []),
    ignore("ListTransactions", "durationFilter", -1),
    ignore("DescribeConfigs", "includeSynonyms", False),
    ignore("DescribeConfigs", "configurationKeys", None),
    ignore("DescribeGroups", "includeAuthorizedOperations", False),
    ignore("DescribeClientQuotas", "strict", False),
    ignore("AlterClientQuotas", "validateOnly", False),
    ignore("ConsumerGroupHeartbeat", "subscribedTopicRegex", None),
    ignore("ConsumerGroupHeartbeat", "serverAssignor", None),
    ignore("ConsumerGroupHeartbeat", "rebalanceTimeoutMs", 300_000),
    ignore("ConsumerGroupHeartbeat", "topicPartitions", None),
    ignore("ShareFetch", "maxRecords", 500),
    ignore("ShareFetch", "forgottenTopicsData", []),
    ignore("ShareAcknowledge", "shareSessionEpoch", 1),
    ignore("LeaveGroup", "groupInstanceId", None),
    ignore("DescribeTopicPartitions", "responsePartitionLimit", 2000),
    ignore("DescribeCluster", "includeClusterAuthorizedOperations", False),
    ignore("CreateTopics", "assignments", []),
    ignore("ElectLeaders", "electionType", 0),
)
"""Fields of requests that a broker ignores."""


class Proxy:
    """Forwards connections to a broker and changes responses; a thread for each direction."""

    def __init__(self, broker: Address, plant: Plant) -> None:
        self._broker, self._plant = broker, plant
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                request: dict[int, tuple[int, int]] = {}
                for work in (self._requests, self._responses):
                    args = (client, broker, request)
                    threading.Thread(target=work, args=args, daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, requests: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError, ConnectionError):
            for frame in _frames(client):
                if len(frame) >= 8:
                    key, version, correlation_id = struct.unpack_from(">hhi", frame)
                    requests[correlation_id] = key, version
                    if self._plant.is_of_requests and self._concerns(key, version):
                        frame = self._changed_request(frame)
                broker.sendall(_SIZE.pack(len(frame)) + frame)
        with suppress(OSError):
            broker.shutdown(socket.SHUT_WR)

    def _responses(
        self, client: socket.socket, broker: socket.socket, requests: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError, ConnectionError):
            for frame in _frames(broker):
                (correlation_id,) = _SIZE.unpack_from(frame)
                changed = self._changed(frame, *requests.pop(correlation_id, (-1, 0)))
                client.sendall(_SIZE.pack(len(changed)) + changed)
        client.close()

    def _concerns(self, key: int, version: int) -> bool:
        name = API_NAMES.get(key)
        return name == self._plant.api and version in MESSAGES[f"{name}Request"].versions

    def _changed_request(self, frame: bytes) -> bytes:
        with suppress(MalformedError, NotEncodableError):
            request = decode_request(frame)
            self._plant.change(request.body)
            return encode_request(request)
        return frame

    def _changed(self, frame: bytes, key: int, version: int) -> bytes:
        if self._plant.is_of_requests or not self._concerns(key, version):
            return frame
        correlation_id, body = decode_response(key, version, frame)
        return bytes(encode_response(key, version, correlation_id, self._plant.change(body)))


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Yield frames until the connection ends."""
    while True:
        size = _exactly(source, _SIZE.size)
        yield _exactly(source, *_SIZE.unpack(size))


def _exactly(source: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = source.recv(size - len(found))
        if not part:
            raise ConnectionError
        found += part
    return bytes(found)


@contextmanager
def planted(broker: Address, plant: Plant) -> Iterator[Address]:
    proxy = Proxy(broker, plant)
    try:
        yield proxy.address
    finally:
        proxy.close()


def about(api: str, brokers: int = 1) -> list[tuple[ExamSubject, Scenario]]:
    """Return scenarios that compare a response of an API, from all subjects.

    For one broker these are quick ones, at most `SCENARIOS_MAX` to twice as many.
    """
    found = [
        (subject, scenario)
        for subject, scenario in selected()
        if scenario.brokers <= brokers
        and (brokers > 1 or scenario.limit_s <= LIMIT_S)
        and any(step.api == api and step.label for step in scenario.steps)
        and not any(step.do is Do.RAW for step in scenario.steps)
    ]
    return found if brokers > 1 else found[:: max(1, len(found) // SCENARIOS_MAX)]


def found_by(brokers: Mapping[int, Address], plant: Plant) -> list[Result]:
    with ExitStack() as stack:
        proxies = {n: stack.enter_context(planted(at, plant)) for n, at in brokers.items()}
        site = look(proxies[min(proxies)], [])._replace(brokers=proxies, home=min(proxies))
        options = ExamOptions(8, patience=0.6)
        results = examine(about(plant.api, len(brokers)), site, options)
    return [each for each in results if each.outcome is Outcome.DEVIATES]


def main() -> int:
    """Plant all deviations; returns 1 if one is not found."""
    missed = 0
    plants = {"more": MORE_PLANTS, "ignored": IGNORED}.get(sys.argv[-1], PLANTS)
    count = 1 if plants is PLANTS else 3
    with running_gateway({"auto.create.topics.enable": "true"}, brokers=count) as running:
        for plant in plants:
            found = found_by(running.addresses, plant)
            missed += not found
            first = found[0].deviations[0] if found else None
            shown = f"{found[0].scenario} ({first.severity}): {described(first)}" if first else ""
            where = shown or "NOT FOUND"
            sys.stdout.write(f"{plant.api}: {plant.what}: {len(found)} scenarios, {where}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(plants) - missed} of {len(plants)} found\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
