"""A stateful Kafka broker for tests, in this process, with fault injection.

    from brokertwin.testing import KafkaBroker

    with KafkaBroker(topics={"orders": 3}) as broker:
        ...  # any Kafka client, with bootstrap.servers=broker.bootstrap

The pytest fixture `kafka_broker` provides one. docs/testing.md has examples.

Names are imported on first use because pytest loads this package in every run (`plugin.py`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokertwin.gateway.faults.fault import Fault, FaultSpec
    from brokertwin.testing.broker import KafkaBroker
    from brokertwin.testing.proxy import KafkaProxy
    from brokertwin.testing.records import StoredRecord

__all__ = ["Fault", "FaultSpec", "KafkaBroker", "KafkaProxy", "StoredRecord"]

_MODULES = {
    "Fault": "gateway.faults.fault",
    "FaultSpec": "gateway.faults.fault",
    "KafkaBroker": "testing.broker",
    "KafkaProxy": "testing.proxy",
    "StoredRecord": "testing.records",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"brokertwin.{_MODULES[name]}"), name)
