"""Three brokers whose internal topics have three replicas: commits and transactions meanwhile.

brokers = Coordinators()
brokers.commit(5)
brokers.stop(brokers.coordinator(GROUPS))
assert brokers.committed() == 5
"""

from typing import Any

from brokertwin.state.cluster import image
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokertwin.state.cluster.image import Partition
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.replication import network
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, TOPIC, Replicas

GROUPS, TRANSACTIONS = 0, 1
NAMES = {GROUPS: "g", TRANSACTIONS: "t"}
_TOPICS = {GROUPS: GROUP_TOPIC, TRANSACTIONS: TRANSACTION_TOPIC}


class Coordinators:
    """A group `g` that commits offsets of `orders`-0, and a transactional id `t`.

    Attributes:
        bench: the cell.
        replicas: `orders`, and the actions on brokers.
    """

    def __init__(self, **settings: Any) -> None:
        few = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3}
        self.bench = Bench(BROKERS, **{**few, **settings})
        self.replicas = Replicas(bench=self.bench)
        for kind, name in NAMES.items():
            body = {"keyType": kind, "coordinatorKeys": [name]}
            self.bench.request("FIND_COORDINATOR", 4, body)
        for broker in BROKERS:
            body = {"transactionalId": None, "transactionTimeoutMs": 0}
            self.bench.request("INIT_PRODUCER_ID", 4, body, broker=broker)
        self._count = 0

    def partition(self, kind: int) -> tuple[str, int, Partition]:
        topic = image.topic_by_name(self.bench.cell.tables.of(CONTROLLER), _TOPICS[kind])
        assert topic is not None
        number = partition_for(NAMES[kind], len(topic.partitions))
        return topic.topic_id, number, topic.partitions[number]

    def coordinator(self, kind: int) -> int:
        """Return the coordinator, -1 if there is none."""
        return self.partition(kind)[2].leader

    def log(self, kind: int, broker: int) -> Log:
        topic_id, number, _ = self.partition(kind)
        log = self.bench.cell.tables.logs.get(log_key(broker, topic_id, number), Log)
        assert log is not None, broker
        return log

    def is_stopped(self, broker: int) -> bool:
        """Whether a broker is not there."""
        return network.is_stopped(self.bench.cell.tables.cluster, broker)

    def is_reached(self, broker: int) -> bool:
        is_severed = network.is_severed(self.bench.cell.tables.cluster, broker)
        return broker >= 0 and not self.is_stopped(broker) and not is_severed

    def send(self, api: str, version: int, body: dict[str, Any], broker: int) -> str | None:
        """Send a request to a broker; return its id, or None if the broker is down."""
        if broker < 0 or self.is_stopped(broker):
            return None
        self._count += 1
        return self.bench.send(api, version, body, broker=broker, id=f"asked-{self._count}")

    def response(self, event_id: str | None) -> Any:
        """The response to a request, None while there is none, or where the connection was lost."""
        document = self.bench.responses.get(event_id or "")
        return document["response"] if document is not None else None

    def send_commit(self, offset: int, broker: int | None = None) -> str | None:
        """Commits an offset; the request's id."""
        partitions = [{"partitionIndex": 0, "committedOffset": offset}]
        body = {"groupId": "g", "topics": [{"name": TOPIC, "partitions": partitions}]}
        if broker is None:
            broker = self.coordinator(GROUPS)
        return self.send("OFFSET_COMMIT", 8, body, broker)

    def commit(self, offset: int, broker: int | None = None) -> int | None:
        """The error of a commit, None while there is none."""
        return error_of_commit(self.response(self.send_commit(offset, broker)))

    def fetch(self, broker: int | None = None) -> tuple[int, int]:
        """The error and the offset that OffsetFetch gives."""
        wanted = {"groupId": "g", "topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
        broker = self.coordinator(GROUPS) if broker is None else broker
        response = self.response(self.send("OFFSET_FETCH", 8, {"groups": [wanted]}, broker))
        group = response["groups"][0]
        if group["errorCode"]:
            return group["errorCode"], -1
        part = group["topics"][0]["partitions"][0]
        return part["errorCode"], part["committedOffset"]

    def committed(self) -> int:
        """The group's committed offset, -1 for none."""
        error, offset = self.fetch()
        assert error == 0
        return offset

    def init(self) -> dict[str, Any] | None:
        body = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
        response = self.send("INIT_PRODUCER_ID", 4, body, self.coordinator(TRANSACTIONS))
        result: dict[str, Any] | None = self.response(response)
        return result

    def transaction(self, offset: int) -> str | None:
        """A transaction that commits an offset of the group; the id of its EndTxn.

        None where it does not come so far.
        """
        held = self.init()
        if held is None or held["errorCode"]:
            return None
        who = {"producerId": held["producerId"], "producerEpoch": held["producerEpoch"]}
        body = {"transactionalId": "t", **who, "groupId": "g"}
        added = self.response(
            self.send("ADD_OFFSETS_TO_TXN", 3, body, self.coordinator(TRANSACTIONS))
        )
        if added is None or added["errorCode"]:
            return None
        partitions = [{"partitionIndex": 0, "committedOffset": offset}]
        body |= {"topics": [{"name": TOPIC, "partitions": partitions}]}
        written = self.response(self.send("TXN_OFFSET_COMMIT", 3, body, self.coordinator(GROUPS)))
        if error_of_commit(written) != 0:
            return None
        body = {"transactionalId": "t", **who, "committed": True}
        return self.send("END_TXN", 4, body, self.coordinator(TRANSACTIONS))

    def state(self) -> str:
        body = {"transactionalIds": ["t"]}
        broker = self.coordinator(TRANSACTIONS)
        response = self.response(self.send("DESCRIBE_TRANSACTIONS", 0, body, broker))
        return str(response["transactionStates"][0]["transactionState"])


def error_of_commit(response: Any) -> int | None:
    if response is None:
        return None
    return int(response["topics"][0]["partitions"][0]["errorCode"])
