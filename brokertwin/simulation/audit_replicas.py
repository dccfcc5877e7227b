"""Audit of replicas, from the contents of the brokers' logs when a broker responds.

- An acknowledged batch, and one that a consumer receives, is on at least `min.insync.replicas`
  brokers, and on each that the controller has in sync. Each broker applies retention itself: one
  whose log starts after the batch has had it.
- A leader with fewer in-sync replicas appends nothing: 19 NOT_ENOUGH_REPLICAS, at once. This is
  checked with the local engine, where a request is one event, and without a transaction, which has
  to be verified first.
- There, a batch that all in-sync replicas have does not time out. If a late replica leaves the
  in-sync set before the timeout, and no broker was severed, no batch times out.
- A read_committed reader receives no record whose transaction has no marker below the high
  watermark.

Runs with failing log directories are not checked: their records are away until a restart.
"""

from collections.abc import Callable
from typing import Any

from brokertwin.clients.client_loop import Send
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import FetchRequest
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.edge import SimulatedRequest
from brokertwin.simulation.plan import LAG_MS, PASSING, EngineKind
from brokertwin.state.cluster import image
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.log import READ_COMMITTED, Log, batches_from, log_key

Place = tuple[str, int]


class ReplicaAudit:
    """Looks into the logs of all brokers before and after they respond."""

    def __init__(
        self,
        violate: Callable[[str], None],
        cluster: SimulatedCluster,
        has_severed_brokers: Callable[[], bool] = bool,
    ) -> None:
        self._violate = violate
        self._cluster = cluster
        self._has_severed_brokers = has_severed_brokers
        plan = cluster.plan
        self._is_checked = plan.replicas > 1 and not plan.disks
        self._is_local = self._is_checked and plan.engine is EngineKind.LOCAL

    def too_few(self, request: SimulatedRequest) -> set[Place]:
        """Partitions of a Produce request with too few in-sync replicas, by its broker's image."""
        send, broker = request.send, request.connection.broker
        if not self._is_local or send.api != "PRODUCE" or _has_transaction(send):
            return set()
        places = set()
        for batch in send.batches:
            name, number = batch.topic_partition
            topic = self._topic(broker, name)
            in_sync = topic.partitions[number].isr if topic is not None else ()
            if topic is not None and len(in_sync) < self._cluster.plan.in_sync_min:
                places.add((name, number))
        return places

    def handled(self, request: SimulatedRequest, too_few: set[Place]) -> None:
        """Check a request that was processed; `too_few` of its partitions were so before."""
        if not too_few or not (too_few := too_few & self.too_few(request)):
            return
        if request.response is None:
            self._violate(f"{request.id} is not refused at once; too few of {too_few} are in sync")
            return
        for place, each in self._partitions(request, "partitionResponses"):
            if place in too_few and each["errorCode"] == Error.NONE:
                self._violate(f"{request.id} is acknowledged; too few of {place} are in sync")

    def on_response(self, request: SimulatedRequest) -> None:
        """Check the batches in a response to Produce or Fetch."""
        api, body = request.send.api, request.send.body
        if isinstance(body, FetchRequest) and body.isolation_level == READ_COMMITTED:
            for place, each in self._partitions(request, "partitions"):
                self._hold_ended(request, place, each)
        if not self._is_checked or api not in ("PRODUCE", "FETCH"):
            return
        if api == "PRODUCE":
            for place, each in self._partitions(request, "partitionResponses"):
                if each["errorCode"] == Error.NONE and each["baseOffset"] >= 0:
                    self._hold(f"{request.id} is acknowledged", request, place, each["baseOffset"])
                elif each["errorCode"] == Error.REQUEST_TIMED_OUT and self._is_local:
                    self._hold_pending(request, place)
            return
        for place, each in self._partitions(request, "partitions"):
            if each.get("batches"):
                last = each["batches"][-1]["baseOffset"]
                self._hold(f"{request.id} receives a batch", request, place, last)

    def _partitions(
        self, request: SimulatedRequest, name: str
    ) -> list[tuple[Place, dict[str, Any]]]:
        body, broker = (request.response or {}).get("response") or {}, request.connection.broker
        partitions = []
        for topic in body.get("responses", ()):
            topic_name = topic.get("topic") or topic.get("name")
            if topic_name is None:
                named = image.topic_by_id(self._tables(broker).of(broker), topic["topicId"])
                topic_name = named.name if named is not None else PASSING
            for each in topic[name]:
                number = each.get("index", each.get("partitionIndex"))
                partitions.append(((topic_name, number), each))
        return partitions

    def _hold(self, what: str, request: SimulatedRequest, place: Place, offset: int) -> None:
        """Check that enough brokers have the responding broker's batch at an offset."""
        topic = self._topic(request.connection.broker, place[0])
        if topic is None or place[0] == PASSING:
            return
        own = self._batch(request.connection.broker, topic, place[1], offset)
        having = self._having(topic, place[1], offset, own)
        partition = self._partition(topic, place[1])
        in_sync = set(partition.isr) if partition is not None else set()
        is_kept = len(having) >= self._cluster.plan.in_sync_min and in_sync <= having
        if own is not None and not is_kept:
            text = f"{place[0]}-{place[1]} at {offset} is on {having}; in sync are {in_sync}"
            self._violate(f"{what}: {text}")

    def _hold_ended(self, request: SimulatedRequest, place: Place, each: dict[str, Any]) -> None:
        """Check that the transactions of received records have ended."""
        last: dict[int, int] = {}
        for batch in each.get("batches") or ():
            if batch["isControl"]:
                last.pop(batch["producerId"], None)
            elif batch["isTransactional"]:
                last[batch["producerId"]] = batch["baseOffset"]
        broker = request.connection.broker
        topic = self._topic(broker, place[0]) if last else None
        if topic is None or place[0] == PASSING:
            return
        log = self._log(broker, topic, place[1])
        first = min(last.values())
        if log is None or self._batch(broker, topic, place[1], first) is None:
            return
        for stored in batches_from(self._tables(broker).of(broker), log, first):
            is_marker = stored.is_control and stored.base_offset < each["highWatermark"]
            if is_marker and last.get(stored.producer_id, stored.base_offset) < stored.base_offset:
                del last[stored.producer_id]
            if not last:
                return
        self._violate(f"{request.id} receives {place} at {last}; no marker follows")

    def _hold_pending(self, request: SimulatedRequest, place: Place) -> None:
        """Check that an in-sync replica lacks a batch whose request has timed out."""
        broker, topic = request.connection.broker, self._topic(request.connection.broker, place[0])
        partition = self._partition(topic, place[1]) if topic is not None else None
        if topic is None or partition is None or partition.leader != broker:
            return
        tables, in_sync = self._tables(broker), set(partition.isr)
        log = tables.logs.get(log_key(broker, topic.topic_id, place[1]), Log)
        if log is None or len(in_sync) < self._cluster.plan.in_sync_min:
            return
        (sent,) = (each for each in request.send.batches if each.topic_partition == place)
        locator = ",".join(request.names[each.id] for each in sent.records)
        for batch in batches_from(tables.of(broker), log, log.high_watermark):
            identity = self._batch(broker, topic, place[1], batch.base_offset)
            having = self._having(topic, place[1], batch.base_offset, identity)
            is_late = self._cluster.plan.lag_ms < LAG_MS and not self._has_severed_brokers()
            if batch.locator == locator and (is_late or in_sync <= having):
                text = f"{place} has it on {having}, in sync are {in_sync}"
                self._violate(f"{request.id} times out; {text}")

    def _having(self, topic: Topic, number: int, offset: int, identity: object) -> set[int]:
        brokers = self._cluster.settings.brokers
        found = {each for each in brokers if self._batch(each, topic, number, offset) == identity}
        return found | {each for each in brokers if offset < self._start(each, topic, number)}

    def _start(self, broker: int, topic: Topic, number: int) -> int:
        log = self._log(broker, topic, number)
        return log.log_start_offset if log is not None else 0

    def _log(self, broker: int, topic: Topic, number: int) -> Log | None:
        return self._tables(broker).logs.get(log_key(broker, topic.topic_id, number), Log)

    def _partition(self, topic: Topic, number: int) -> Partition | None:
        for cell in self._cluster.cells.values():
            known = image.topic_by_id(cell.tables.of(CONTROLLER), topic.topic_id)
            if known is not None:
                return known.partitions[number]
        return None

    def _topic(self, broker: int, name: str) -> Topic | None:
        return image.topic_by_name(self._tables(broker).of(broker), name)

    def _batch(self, broker: int, topic: Topic, number: int, offset: int) -> object:
        """Identity of the batch at an offset of a broker's log, or None."""
        log = self._log(broker, topic, number)
        if log is None:
            return None
        batch = next(batches_from(self._tables(broker).of(broker), log, offset), None)
        if batch is None or batch.base_offset != offset:
            return None
        return batch.producer_id, batch.base_sequence, batch.locator

    def _tables(self, broker: int) -> CellTables:
        return self._cluster.cells[self._cluster.cell_of(broker)].tables


def _has_transaction(send: Send) -> bool:
    return getattr(send.body, "transactional_id", None) is not None
