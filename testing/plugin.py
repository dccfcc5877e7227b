"""The pytest plugin: the fixture `kafka_broker` and its marker.

pytest loads it in every run, so it imports nothing before a test uses the fixture.
"""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from brokertwin.testing.broker import KafkaBroker

MARKER = (
    "kafka_broker(brokers=1, topics=..., config=..., security_protocol=..., users=...): initial"
    " state of the fixture kafka_broker; topics: names, or a dict of names and partitions; config:"
    " Kafka's own broker settings; users: passwords by user, for SASL"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator["KafkaBroker"]:
    """A Kafka broker in this process, new for each test: `kafka_broker.bootstrap`.

    The marker `kafka_broker` sets its arguments. A test's marker overrides those of its class and
    module, argument by argument.
    """
    from brokertwin.errors import UserError
    from brokertwin.testing.broker import KafkaBroker

    given: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka_broker"))):
        known = inspect.signature(KafkaBroker).parameters
        wrong = [repr(value) for value in marker.args] + [
            k for k in marker.kwargs if k not in known
        ]
        if wrong:
            raise pytest.UsageError(
                f"unknown arguments of kafka_broker: {', '.join(wrong)}; it takes"
                f" {', '.join(f'{name}=…' for name in known)}"
            )
        given.update(marker.kwargs)
    try:
        broker = KafkaBroker(**given).start()
    except UserError as error:
        raise pytest.UsageError(f"kafka_broker: {error}") from None
    try:
        yield broker
    finally:
        broker.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Show a failed test's last requests."""
    broker = getattr(item, "funcargs", {}).get("kafka_broker")
    if call.when != "call" or call.excinfo is None or broker is None:
        return
    from brokertwin.testing.transcript import transcript

    item.add_report_section("call", "kafka_broker", transcript(broker.requests()))
