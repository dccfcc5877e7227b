"""A state with something of every kind of item."""

from tests.support.machine import START, Bench, header

BATCH = header(3, 7, 1, 0, size=90, baseTimestamp=START, maxTimestamp=START, magic=2)


def something_of_every_kind() -> Bench:
    bench = Bench()
    bench.topic("orders", 2)
    bench.request("PRODUCE", 9, acks=-1, name="orders", index=1, batches=[BATCH])
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
    fetch = {"sessionEpoch": 0, "topics": [{"topic": "orders", "partitions": [partition]}]}
    bench.request("FETCH", 12, fetch, maxWaitMs=0)
    bench.request("FETCH", 12, fetch, sessionEpoch=-1, maxWaitMs=500, minBytes=1)
    bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"])
    committed = {"partitionIndex": 1, "committedOffset": 3, "committedMetadata": "note"}
    body = {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "orders", "partitions": [committed]}],
    }
    bench.request("OFFSET_COMMIT", 8, body)
    for _ in range(2):
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["t"])
        init = {"transactionalId": "t", "transactionTimeoutMs": 1000}
        holder = bench.request("INIT_PRODUCER_ID", 2, init)
    added = {
        "v3AndBelowTransactionalId": "t",
        "v3AndBelowProducerId": holder["producerId"],
        "v3AndBelowProducerEpoch": holder["producerEpoch"],
        "v3AndBelowTopics": [{"name": "orders", "partitions": [1, 0]}],
    }
    bench.request("ADD_PARTITIONS_TO_TXN", 3, added)
    return bench
