"""The topic of facts: at a broker with ACLs, and after a failed read."""

from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.streaming.live import fact_topic
from brokertwin.streaming.live.fact_topic import FactTopic
from brokertwin.streaming.live.facts import FACTS_KEPT_MS, FactRow
from brokertwin.testing import KafkaBroker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def client(broker: KafkaBroker, user: str) -> ClientProperties:
    return ClientProperties(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="{user}" password="secret";',
        }
    )


def test_no_right_on_a_group_is_needed() -> None:
    """A consumer of librdkafka looks for the coordinator of a group that it never joins."""
    with KafkaBroker(
        topics=["facts"],
        config={"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"},
        security_protocol="SASL_PLAINTEXT",
        users={"admin": "secret", "reader": "secret"},
    ) as broker:
        admin = AdminClient(client(broker, "admin").for_confluent())
        rights = [
            AclBinding(
                ResourceType.TOPIC,
                "facts",
                ResourcePatternType.LITERAL,
                "User:reader",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        for future in admin.create_acls(rights).values():
            future.result(10)
        topic = FactTopic(client(broker, "reader"), "facts")
        broker.requests("FIND_COORDINATOR", at_least=1)
        topic.write([FactRow("shop", "topic", "id", "orders")])
        assert topic.read().keys() == {"shop"}


def test_facts_are_read_again_in_a_micro_batch_whose_first_read_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> None:
        raise UserError("The broker is gone.")

    with KafkaBroker(topics=["facts"]) as broker:
        topic = FactTopic(ClientProperties({"bootstrap.servers": broker.bootstrap}), "facts")
        topic.write([FactRow("shop", "topic", "id", "orders")])
        with monkeypatch.context() as patch:
            patch.setattr(fact_topic, "polled", fails)
            with pytest.raises(UserError):
                topic.read(now=1)
        assert topic.read(now=1).keys() == {"shop"}


def test_a_fact_that_has_expired_is_deleted_from_the_topic() -> None:
    def span(last: int) -> FactRow:
        return FactRow("shop", "span", "1 requests/0", (last, last, last))

    with KafkaBroker(topics=["facts"]) as broker:
        client = ClientProperties({"bootstrap.servers": broker.bootstrap})
        topic, later = FactTopic(client, "facts"), 1_000 + FACTS_KEPT_MS
        topic.write([FactRow("shop", "topic", "id", "orders", 1_000), span(later)])
        topic.expire()
        assert topic.read()["shop"].known.topics == {"id": "orders"}
        topic.write([span(later + 1)])
        topic.expire()
        for each in (topic, FactTopic(client, "facts")):
            assert each.read()["shop"].known.topics == {}
            assert each.read()["shop"].spans[1]
