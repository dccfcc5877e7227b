"""What admin clients of others are told by a gateway is what a real broker tells them.

Each method of kafka-python's, of confluent-kafka's and of Java's. Names, ids, times and the order
within lists are aside; the tools' tests hold the order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.admin_sides import Act, Call, ask_all, differing
from tests.support.admin_steps import (
    NOT_CALLED,
    NOT_CALLED_OF_JAVA,
    OF_CONFLUENT,
    OF_KAFKA_PYTHON,
    begin_transaction,
    commit_transaction,
    wait_for_coordinator,
    with_records,
)
from tests.support.gateways import running_gateway
from tests.support.java_admin import AdminProcess, JavaAdmin
from tests.support.tool_steps import SETTINGS

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A real broker, and a gateway that has its settings."""
    kafka = EmbeddedKafka(tmp_path_factory.mktemp("admin") / "kafka", default_home())
    try:
        real = kafka.start(SETTINGS)
        given = properties.read(kafka.home / "server.properties")
        with running_gateway(given) as gateway:
            yield real, gateway.bootstrap
    finally:
        kafka.stop()


@contextmanager
def of_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def of_confluent(bootstrap: str) -> Iterator[AdminClient]:
    yield AdminClient({"bootstrap.servers": bootstrap})


@pytest.mark.filterwarnings("ignore:.* deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("made", "steps"), [(of_python, OF_KAFKA_PYTHON), (of_confluent, OF_CONFLUENT)]
)
def test_each_method_tells_what_it_tells_of_a_real_broker(
    bootstraps: tuple[str, str],
    made: Callable[[str], AbstractContextManager[Any]],
    steps: Sequence[Call | Act],
) -> None:
    with made(bootstraps[0]) as real, made(bootstraps[1]) as ours:
        found = differing(ask_all((real, ours), bootstraps, steps))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "steps"), [(KafkaAdminClient, OF_KAFKA_PYTHON), (AdminClient, OF_CONFLUENT)]
)
def test_no_method_is_left_out(kind: type, steps: Sequence[Call | Act]) -> None:
    called = {step.method for step in steps if isinstance(step, Call)}
    offered = {name for name in dir(kind) if name[0].islower() and callable(getattr(kind, name))}
    assert called == offered - NOT_CALLED.keys()


ACTS = {
    "records": with_records("java"),
    "a coordinator": wait_for_coordinator,
    "begin": begin_transaction,
    "commit": commit_transaction,
}


def test_each_method_of_java_tells_what_it_tells_of_a_real_broker(
    bootstraps: tuple[str, str],
) -> None:
    with AdminProcess(bootstraps, ACTS) as java:
        admins = [JavaAdmin(java, side) for side in range(len(bootstraps))]
        found = differing(ask_all(admins, bootstraps, java.steps))
        called = {step.method for step in java.steps if isinstance(step, Call)}
        assert called == java.methods - NOT_CALLED_OF_JAVA.keys()
    assert not found, "\n".join(found)
