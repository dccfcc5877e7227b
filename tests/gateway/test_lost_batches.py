"""Lost or unreadable batches and sealed log parts are an error."""

from typing import Any

import pytest

from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.protocol.errors import Error
from brokertwin.state.logs import log as logs
from tests.support.batches import START, batch
from tests.support.gateways import Client, Running, running_gateway


class Forgetful(LocalEngine):
    """A store that returns nothing, or raises `failure`, on demand."""

    lost: tuple[str, ...] = ()
    segments_lost = False
    failure: OSError | None = None

    def gone(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def get(self, locator: str) -> bytes | None:
        return self.gone() if locator in self.lost else await super().get(locator)

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        if self.segments_lost:
            return self.gone()
        return await super().segment(topic_id, partition, base_offset)


@pytest.fixture(params=[None, OSError("no answer")], ids=["lost", "unreachable"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a gateway with a topic `t` of six batches, the first two of them sealed."""
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
    with running_gateway(engine_type=Forgetful) as running, running.client() as client:
        assert isinstance(running.engine, Forgetful)
        running.engine.failure = request.param
        client.topic("t")
        for number in range(6):
            client.produce("t", batch(b"%d" % number, timestamps=[START + 10 * number]))
        yield running, client


def test_fetch_returns_batches_before_the_lost_bytes(made: tuple[Running, Client]) -> None:
    running, client = made
    assert isinstance(running.engine, Forgetful)
    running.engine.lost = ("4", "6")
    found = client.fetch("t", 2)
    assert found["errorCode"] == 0
    assert len(found["records"]) == len(batch(b"2"))
    found = client.fetch("t", 3)
    assert (found["errorCode"], found["records"]) == (Error.KAFKA_STORAGE_ERROR, b"")
    assert client.fetch("t", 4)["errorCode"] == 0


def test_lost_sealed_part_is_an_error(made: tuple[Running, Client]) -> None:
    running, client = made
    assert isinstance(running.engine, Forgetful)
    assert client.fetch("t", 0)["errorCode"] == 0
    running.engine.segments_lost = True
    assert client.fetch("t", 0)["errorCode"] == Error.KAFKA_STORAGE_ERROR
    assert client.list_offset("t", START + 5)["errorCode"] == Error.KAFKA_STORAGE_ERROR
    assert client.fetch("t", 2)["errorCode"] == 0


def test_timestamp_look_up_in_a_lost_batch_is_an_error(made: tuple[Running, Client]) -> None:
    running, client = made
    assert isinstance(running.engine, Forgetful)
    client.topic("pairs")
    for number in range(2):
        times = [START + 20 * number, START + 20 * number + 10]
        client.produce("pairs", batch(b"a", b"b", timestamps=times))
    running.engine.lost = ("7",)
    offset = client.list_offset("pairs", START + 5)
    assert (offset["errorCode"], offset["offset"]) == (Error.KAFKA_STORAGE_ERROR, -1)
    offset = client.list_offset("pairs", START + 25)
    assert (offset["errorCode"], offset["offset"]) == (0, 3)
