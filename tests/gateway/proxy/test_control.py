"""The HTTP control of a proxy."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.cli.watching.server import served
from brokertwin.gateway import http_access
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.proxy.control import app
from brokertwin.testing import KafkaBroker, KafkaProxy
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body

Call = Any


@pytest.fixture
def proxy() -> Iterator[KafkaProxy]:
    with KafkaBroker(topics=["orders"]) as broker, KafkaProxy(broker.bootstrap) as proxy:
        yield proxy


@pytest.fixture
def call(proxy: KafkaProxy) -> Iterator[Call]:
    """Send an HTTP request; returns status and document."""

    def documents() -> list[bytes]:
        return proxy._thread.call(proxy._proxy.documents)

    with served(app(proxy.fault_set, documents), "--control 0", "127.0.0.1", 0) as url:

        def send(method: str, path: str, body: object = None, raw: bytes | None = None) -> Any:
            data = raw if raw is not None else json.dumps(body).encode() if body else None
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(request) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        yield send


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[Client]:
    host, port = proxy.bootstrap.split(":")
    with Client(Address(host, int(port))) as client:
        client.call("METADATA", 12, topics=None)
        yield client


def test_a_fault_is_added_hit_listed_and_deleted(call: Call, client: Client) -> None:
    entry = {"effect": "fail", "api": "PRODUCE", "error": "REQUEST_TIMED_OUT", "times": 2}
    code, (added,) = call("POST", "faults", entry)
    assert (code, added["fault"], added["hits"]) == (201, entry, 0)
    assert client.produce("orders", batch(b"x"))["errorCode"] == 7
    assert call("GET", "faults") == (200, [{**added, "matches": 1, "hits": 1}])
    assert call("DELETE", f"faults/{added['id']}")[1]["isOver"] is True
    assert call("GET", "faults") == (200, [])
    assert client.produce("orders", batch(b"x"))["errorCode"] == 0


def test_a_list_of_faults_is_added_as_a_whole_or_not_at_all(call: Call) -> None:
    entries = [{"effect": "cut", "api": "FETCH"}, {"effect": "lose", "api": "FETCHES"}]
    code, error = call("POST", "faults", {"faults": entries})
    assert code == 400
    assert error["error"] == "Body, fault 2: Kafka has no API FETCHES."
    assert error["hint"].startswith("Did you mean FETCH or ")
    assert call("GET", "faults")[1] == []
    assert len(call("POST", "faults", entries[:1] * 3)[1]) == 3
    assert call("DELETE", "faults") == (200, [])
    assert call("GET", "faults") == (200, [])


def test_a_held_response_is_awaited_and_released(call: Call, client: Client) -> None:
    (held,) = call("POST", "faults", {"effect": "hold", "api": "PRODUCE"})[1]
    threading.Timer(
        0.05, lambda: client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
    ).start()
    code, status = call("GET", f"faults/{held['id']}?hits=1")
    assert (code, status["hits"]) == (200, 1)
    code, status = call("POST", f"faults/{held['id']}/release")
    assert (code, status["isOver"], status["held"]) == (200, True, 0)
    assert client.receive()


def test_requests_are_listed_by_api_and_client(call: Call, client: Client) -> None:
    client.produce("orders", batch(b"x"))
    names = [each["requestHeader"]["requestApiKeyName"] for each in call("GET", "requests")[1]]
    assert names == ["METADATA", "PRODUCE"]
    assert len(call("GET", "requests?api=produce&client=tester")[1]) == 1
    assert call("GET", "requests?client=other")[1] == []


ERRORS = [
    ("GET", "nothing", None, 404, "Unknown path."),
    ("GET", "faults/7", None, 404, "No fault 7."),
    ("GET", "faults/x", None, 404, "No fault x."),
    ("PUT", "faults", b"{}", 405, "PUT is not allowed here."),
    ("GET", "faults/1/release", None, 405, "GET is not allowed here."),
    ("POST", "faults", b"{", 400, "The body is not valid JSON"),
    ("POST", "faults", b"[]", 400, "Body: there are no faults."),
    ("POST", "faults", b'{"effect": "cut", "nht": 1}', 400, "has no field nht"),
    ("POST", "faults", b" " * 2000, 413, "The limit is 1000 bytes."),
    ("GET", "requests?api=PRODUCES", None, 400, "Kafka has no API PRODUCES."),
    ("GET", "faults/1?hits=1&timeoutMs=1", None, 408, "0 of 1 hits"),
    ("GET", "faults/1?hits=some", None, 400, "Invalid hits='some'."),
]
"""Method, path, body, status and error message."""


def test_errors_have_a_status_and_an_explanation(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("POST", "faults", {"effect": "cut", "api": "HEARTBEAT"})
    monkeypatch.setattr(http_access, "BODY_BYTES_MAX", 1000)
    for method, path, raw, code, error in ERRORS:
        actual, document = call(method, path, raw=raw)
        assert actual == code, (method, path)
        assert error in document["error"]


def test_the_schema_is_served(call: Call) -> None:
    assert call("GET", "schema")[1]["properties"]["faults"]["type"] == "array"
