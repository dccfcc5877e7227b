"""Admin clients: compare what their methods return with a real broker.

Each method of kafka-python's, confluent-kafka's and Java's. Names, ids, times and the order within
lists are not compared; the tests of the tools compare the order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.admin_sides import Act, Call, call_all, call_ours, differing
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
from tests.support.goldens import IS_LIVE, KEEPING, properties_of, real_broker, tape
from tests.support.java_admin import AdminProcess, JavaAdmin
from tests.support.tool_steps import SETTINGS


@pytest.fixture
def gateway() -> Iterator[str]:
    """Return the address of a gateway with a real broker's settings."""
    with running_gateway(properties_of(SETTINGS)) as running:
        yield running.bootstrap


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


@pytest.mark.compares
@pytest.mark.filterwarnings("ignore:.* deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "made", "steps"),
    [("kafka_python", of_python, OF_KAFKA_PYTHON), ("confluent", of_confluent, OF_CONFLUENT)],
)
def test_each_method_returns_the_result_of_a_real_broker(
    gateway: str,
    name: str,
    made: Callable[[str], AbstractContextManager[Any]],
    steps: Sequence[Call | Act],
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        recording = stack.enter_context(tape(f"admin_clients/{name}", SETTINGS))
        address = stack.enter_context(real_broker(tmp_path / "kafka", SETTINGS))
        real, bootstraps = None, [gateway]
        if IS_LIVE:
            bootstraps.append(f"{address.host}:{address.port}")
            real = stack.enter_context(made(bootstraps[1]))
        ours = stack.enter_context(made(gateway))
        found = differing(call_ours(real, ours, bootstraps, steps, recording))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "steps"), [(KafkaAdminClient, OF_KAFKA_PYTHON), (AdminClient, OF_CONFLUENT)]
)
def test_every_method_has_a_step(kind: type, steps: Sequence[Call | Act]) -> None:
    called = {step.method for step in steps if isinstance(step, Call)}
    offered = {name for name in dir(kind) if name[0].islower() and callable(getattr(kind, name))}
    assert called == offered - NOT_CALLED.keys()


ACTS = {
    "records": with_records("java"),
    "a coordinator": wait_for_coordinator,
    "begin": begin_transaction,
    "commit": commit_transaction,
}


@pytest.mark.kafka
def test_each_java_method_returns_the_result_of_a_real_broker(gateway: str, tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path / "kafka", default_home())
    try:
        bootstraps = broker.start({**KEEPING, **SETTINGS}), gateway
        with AdminProcess(bootstraps, ACTS) as java:
            admins = [JavaAdmin(java, side) for side in range(len(bootstraps))]
            found = differing(call_all(admins, bootstraps, java.steps))
            called = {step.method for step in java.steps if isinstance(step, Call)}
            assert called == java.methods - NOT_CALLED_OF_JAVA.keys()
    finally:
        broker.stop()
    assert not found, "\n".join(found)
