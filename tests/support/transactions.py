"""Transactions on the bench: producers, their groups' offsets, and readers of committed records.

bench = TransactionBench()
holder = bench.init("t1")
bench.add("t1", holder, a=[0])
bench.produce("t1", holder, 0)
bench.end("t1", holder, is_commit=True)
"""

from typing import Any, NamedTuple

from tests.support.machine import Bench, header, produce_body

TOPIC = "a"
PARTITIONS = 2
COMMITTED = 1
WAIT_MS = 10


class Holder(NamedTuple):
    """A producer id and epoch, or what an InitProducerId was answered in their place."""

    producer_id: int
    epoch: int
    error: int = 0


class TransactionBench(Bench):
    """A bench with coordinators, producer ids and the topic `a` of two partitions.

    Requests go to `broker`; by default the first one.
    """

    def __init__(self, has_producer_ids: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        for key_type in (0, 1):
            self.request("FIND_COORDINATOR", 4, keyType=key_type, coordinatorKeys=["x"])
        for broker in self.settings.brokers if has_producer_ids else []:
            body = {"transactionalId": None, "transactionTimeoutMs": 0}
            self.request("INIT_PRODUCER_ID", 4, body, broker=broker)
        self.topic(TOPIC, PARTITIONS)

    def init(
        self,
        name: str = "t1",
        timeout_ms: int = 60_000,
        held: tuple[int, int] = (-1, -1),
        version: int = 5,
        **event: Any,
    ) -> Holder:
        """What InitProducerId returns."""
        body = {
            "transactionalId": name,
            "transactionTimeoutMs": timeout_ms,
            "producerId": held[0],
            "producerEpoch": held[1],
        }
        response = self.request("INIT_PRODUCER_ID", version, body, **event)
        return Holder(response["producerId"], response["producerEpoch"], response["errorCode"])

    def add(
        self, name: str, holder: tuple[int, ...], version: int = 3, **topics: list[int]
    ) -> dict[str, list[int]]:
        """The errors of AddPartitionsToTxn from a client, by topic."""
        body = {
            "v3AndBelowTransactionalId": name,
            "v3AndBelowProducerId": holder[0],
            "v3AndBelowProducerEpoch": holder[1],
            "v3AndBelowTopics": [{"name": t, "partitions": each} for t, each in topics.items()],
        }
        response = self.request("ADD_PARTITIONS_TO_TXN", version, body)
        return {
            topic["name"]: [p["partitionErrorCode"] for p in topic["resultsByPartition"]]
            for topic in response["resultsByTopicV3AndBelow"]
        }

    def verify(self, name: str, holder: tuple[int, ...], *partitions: int) -> list[int]:
        """The errors of a broker's AddPartitionsToTxn with verifyOnly."""
        transaction = {
            "transactionalId": name,
            "producerId": holder[0],
            "producerEpoch": holder[1],
            "verifyOnly": True,
            "topics": [{"name": TOPIC, "partitions": list(partitions)}],
        }
        response = self.request("ADD_PARTITIONS_TO_TXN", 4, {"transactions": [transaction]})
        (topic,) = response["resultsByTransaction"][0]["topicResults"]
        reported = {
            p["partitionIndex"]: p["partitionErrorCode"] for p in topic["resultsByPartition"]
        }
        return [reported[each] for each in partitions]

    def end(
        self,
        name: str,
        holder: tuple[int, ...],
        is_commit: bool = True,
        version: int = 3,
        **event: Any,
    ) -> dict[str, Any]:
        """What EndTxn returns."""
        body = {
            "transactionalId": name,
            "producerId": holder[0],
            "producerEpoch": holder[1],
            "committed": is_commit,
        }
        response: dict[str, Any] = self.request("END_TXN", version, body, **event)
        return response

    def produce(
        self,
        name: str,
        holder: tuple[int, ...],
        sequence: int,
        partition: int = 0,
        version: int = 11,
    ) -> tuple[int, int]:
        """The error and the offset of one transactional record; time passes while it waits."""
        kind = {"maxTimestamp": self.now, "isTransactional": True}
        batch = header(1, *holder[:2], sequence, **kind)
        body = produce_body(TOPIC, batch, partition=partition, transactionalId=name)
        event_id = self.send("PRODUCE", version, body)
        while event_id not in self.responses:
            self.tick(WAIT_MS)
        response = self.responses[event_id]["response"]
        part = response["responses"][0]["partitionResponses"][0]
        return part["errorCode"], part["baseOffset"]

    def add_offsets(self, name: str, holder: tuple[int, ...], group: str = "g") -> int:
        body = {
            "transactionalId": name,
            "producerId": holder[0],
            "producerEpoch": holder[1],
            "groupId": group,
        }
        return int(self.request("ADD_OFFSETS_TO_TXN", 3, body)["errorCode"])

    def commit_offset(
        self,
        name: str,
        holder: tuple[int, ...],
        offset: int,
        group: str = "g",
        version: int = 3,
        partition: int = 0,
        **fields: Any,
    ) -> int:
        response = self.request(
            "TXN_OFFSET_COMMIT",
            version,
            transactionalId=name,
            groupId=group,
            producerId=holder[0],
            producerEpoch=holder[1],
            name=TOPIC,
            partitionIndex=partition,
            committedOffset=offset,
            **{"committedMetadata": "", **fields},
        )
        return int(response["topics"][0]["partitions"][0]["errorCode"])

    def committed_offset(
        self, group: str = "g", require_stable: bool = False, partition: int = 0
    ) -> tuple[int, int]:
        """The error and the offset that OffsetFetch gives for a partition of `a`."""
        wanted = {"groupId": group, "topics": [{"name": TOPIC, "partitionIndexes": [partition]}]}
        body = {"groups": [wanted], "requireStable": require_stable}
        response = self.request("OFFSET_FETCH", 8, body)
        part = response["groups"][0]["topics"][0]["partitions"][0]
        return part["errorCode"], part["committedOffset"]

    def described(self, name: str = "t1") -> dict[str, Any]:
        response = self.request("DESCRIBE_TRANSACTIONS", 0, transactionalIds=[name])
        described: dict[str, Any] = response["transactionStates"][0]
        return described

    def state_of(self, name: str = "t1") -> str:
        return str(self.described(name)["transactionState"])

    def read(self, partition: int = 0) -> dict[str, Any]:
        """Return a whole partition as a read_committed consumer reads it."""
        wanted = {"partition": partition, "fetchOffset": 0, "partitionMaxBytes": 10_000_000}
        body = {
            "maxWaitMs": 0,
            "minBytes": 0,
            "maxBytes": 10_000_000,
            "isolationLevel": COMMITTED,
            "topics": [{"topic": TOPIC, "partitions": [wanted]}],
        }
        response = self.request("FETCH", 12, body)
        part: dict[str, Any] = response["responses"][0]["partitions"][0]
        return part
