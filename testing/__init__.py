"""A Kafka broker for tests: stateful, in this process, with verbs to make trouble.

    from brokertwin.testing import KafkaBroker

    with KafkaBroker(topics={"orders": 3}) as broker:
        ...  # any Kafka client, with bootstrap.servers=broker.bootstrap

In pytest the fixture `kafka_broker` is one. docs/testing.md has examples.

Names are imported when they are first used: pytest loads this package in every run (`plugin.py`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokertwin.testing.broker import KafkaBroker
    from brokertwin.testing.records import StoredRecord
    from brokertwin.testing.trouble import Trouble

__all__ = ["KafkaBroker", "StoredRecord", "Trouble"]

_MODULES = {"KafkaBroker": "broker", "StoredRecord": "records", "Trouble": "trouble"}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
