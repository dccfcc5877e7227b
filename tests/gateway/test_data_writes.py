"""Batches are written concurrently; the log has them in request order."""

import asyncio

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from tests.support.batches import batch
from tests.support.gateways import Client, Running, produce_body, running_gateway

PRODUCE = 0
COUNT = 10


class LateStore(LocalEngine):
    """A store that writes the first batches last, and can drop some."""

    puts = 0
    writing = 0
    most_at_once = 0

    def put(self, data: bytes) -> asyncio.Future[str]:
        stored = super().put(data)
        assert isinstance(stored, str)
        late: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.puts += 1
        self.writing += 1
        self.most_at_once = max(self.most_at_once, self.writing)

        def written() -> None:
            self.writing -= 1
            if b"lost" in data:
                late.set_exception(OSError("no room"))
            else:
                late.set_result(stored)

        asyncio.get_running_loop().call_later(0.3 - 0.02 * self.puts, written)
        return late


def receive(client: Client) -> list[dict[str, int]]:
    partitions: list[dict[str, int]] = decode_response(PRODUCE, 9, client.receive())[1][
        "responses"
    ][0]["partitionResponses"]
    return partitions


def late_gateway(running: Running) -> LateStore:
    assert isinstance(running.engine, LateStore)
    return running.engine


def test_log_order_is_request_order_whichever_write_completes_first() -> None:
    with running_gateway(engine_type=LateStore) as running, running.client() as client:
        client.topic("ordered")
        for number in range(COUNT):
            client.send("PRODUCE", 9, produce_body("ordered", batch(b"%d" % number)))
        assert [receive(client)[0]["baseOffset"] for _ in range(COUNT)] == list(range(COUNT))
        found = bytes(client.fetch("ordered", 0)["records"])
        places = [found.index(b"key\x02%d" % number) for number in range(COUNT)]
        assert places == sorted(places)
        assert late_gateway(running).most_at_once > COUNT // 2


def test_partitions_of_a_request_are_written_concurrently_and_fail_alone() -> None:
    with running_gateway(engine_type=LateStore) as running, running.client() as client:
        client.topic("wide", 3)
        body = produce_body("wide", batch(b"0"))
        body["topicData"][0]["partitionData"] += [
            {"index": 1, "records": batch(b"lost")},
            {"index": 2, "records": batch(b"2")},
        ]
        client.send("PRODUCE", 9, body)
        codes = [partition["errorCode"] for partition in receive(client)]
        assert codes == [0, Error.KAFKA_STORAGE_ERROR, 0]
        assert late_gateway(running).most_at_once == 3
