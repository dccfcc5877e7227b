"""Contents of records, for applications that need more than their names.

Logs contain only names (`record_names.py`). Without a stored message, a name is its own content.
"""

from collections.abc import Mapping

from brokertwin.clients.messages import ProducerRecord

START = 0
"""Timestamp of messages without one."""


class Contents:
    """Messages by record name, for all clients of a run."""

    def __init__(self) -> None:
        self._by_name: dict[str, ProducerRecord] = {}

    def keep(self, name: str, message: ProducerRecord) -> None:
        self._by_name[name] = message

    def read(self, name: str) -> ProducerRecord:
        return self._by_name.get(name) or ProducerRecord(None, name.encode(), START)


class Naming(dict[int, str]):
    """Names of one producer's records by id, created on first use.

    Args:
        prefix: unique prefix of the names.
        messages: messages by record id, at least until they are sent.
        contents: stores the messages.
    """

    def __init__(
        self, prefix: str, messages: Mapping[int, ProducerRecord], contents: Contents
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self._messages = messages
        self._contents = contents

    def __missing__(self, record_id: int) -> str:
        name = self[record_id] = f"{self._prefix}.{record_id}"
        self._contents.keep(name, self._messages[record_id])
        return name
