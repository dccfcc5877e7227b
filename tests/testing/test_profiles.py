"""The test broker with the API versions of former releases."""

import confluent_kafka
import kafka
import pytest

from brokertwin.clients.io.producer import Producer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked
from brokertwin.gateway.admin.releases import release
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.protocol.kafka_apis import API_VERSIONS, FETCH, PRODUCE
from brokertwin.testing import KafkaBroker
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S

RELEASES = ["2.8", "3.4", "3.9", "4.0", "4.3", "4.4"]
SOFTWARE = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1"}


def connect(broker: KafkaBroker) -> Client:
    host, port = broker.bootstrap.split(":")
    return Client(Address(host, int(port)))


@pytest.mark.parametrize("version", RELEASES)
def test_nothing_that_the_release_lacks_is_announced(version: str) -> None:
    offered = release(version)
    with KafkaBroker(version=version) as broker, connect(broker) as client:
        response = client.call("API_VERSIONS", 3, SOFTWARE)
    listed = {
        each["apiKey"]: (each["minVersion"], each["maxVersion"]) for each in response["apiKeys"]
    }
    assert {PRODUCE.key, FETCH.key, API_VERSIONS.key} <= listed.keys()
    for key, (first, last) in listed.items():
        assert offered.apis[key][0] <= first <= last <= offered.apis[key][1]
    for kind in ("supportedFeatures", "finalizedFeatures"):
        features = {each["name"] for each in response.get(kind) or ()}
        assert offered.features is None or features <= offered.features


@pytest.mark.kafka_broker(version="2.8")
def test_a_newer_api_versions_request_gets_the_versions_of_api_versions(
    kafka_broker: KafkaBroker,
) -> None:
    with connect(kafka_broker) as client:
        client.send("API_VERSIONS", 4, SOFTWARE)
        _, response = decode_response(API_VERSIONS.key, 0, client.receive())
    assert response["errorCode"] == Error.UNSUPPORTED_VERSION
    assert {"apiKey": 18, "minVersion": 0, "maxVersion": 3} in response["apiKeys"]


@pytest.mark.kafka_broker(version="2.8", topics=["orders"])
def test_a_version_that_the_release_lacks_closes_the_connection(kafka_broker: KafkaBroker) -> None:
    with connect(kafka_broker) as client:
        assert client.call("METADATA", 11, topics=[])["brokers"]
        client.send("METADATA", 12, topics=[])
        assert client.is_closed()


@pytest.mark.parametrize("version", RELEASES)
def test_clients_use_the_versions_of_the_release(version: str) -> None:
    offered = release(version)
    with KafkaBroker(version=version, topics=["orders"]) as broker:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "t"}
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", "one")
        producer.commit_transaction(PATIENCE_S)
        consumer = kafka.KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
        )
        assert next(consumer).value == b"one"
        consumer.close()
        headers = [each["requestHeader"] for each in broker.requests()]
    used = {(each["requestApiKey"], each["requestApiVersion"]) for each in headers}
    assert all(offered.offers(key, number) for key, number in used)


@pytest.mark.parametrize("version", RELEASES[1:])
def test_a_client_of_kip_890_takes_the_protocol_that_the_release_has(version: str) -> None:
    """Java's and franz-go's skip AddPartitionsToTxn if transaction.version is finalized at 2."""
    config = ProducerConfig(transactional_id="t")
    with (
        KafkaBroker(version=version, topics=["orders"]) as broker,
        Producer(broker.bootstrap, config) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", ProducerRecord(None, b"one"))
        assert [type(each) for each in producer.commit_transaction()] == [RecordAcked]
