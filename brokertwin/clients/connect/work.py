"""Units of work of a worker: connectors and tasks.

Source: `ConnectorTaskId`, `ConnectorsAndTasks` in Kafka Connect. A connector has task number -1, as
in the protocol.
"""

from collections.abc import Iterable
from typing import NamedTuple

CONNECTOR = -1
"""Task number of the connector itself (`CONNECTOR_TASK`)."""


class ConnectTaskId(NamedTuple):
    """A task of a connector, or the connector; sorts by name, then number."""

    connector: str
    task: int = CONNECTOR

    @property
    def is_connector(self) -> bool:
        return self.task == CONNECTOR

    def __str__(self) -> str:
        return self.connector if self.is_connector else f"{self.connector}-{self.task}"


def connectors_first(items: Iterable[ConnectTaskId]) -> list[ConnectTaskId]:
    return sorted(items, key=lambda item: not item.is_connector)
