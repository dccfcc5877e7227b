"""What records say, where an application needs more of them than their names.

Logs hold names alone (`record_names.py`); a name that nobody has kept a message for says itself.
"""

from collections.abc import Mapping

from brokertwin.clients.messages import ProducerRecord

START = 0
"""The timestamp of messages that have none: what comes first is worked on first."""


class Contents:
    """Messages by the names of their records, for all clients of a run."""

    def __init__(self) -> None:
        self._by_name: dict[str, ProducerRecord] = {}

    def keep(self, name: str, message: ProducerRecord) -> None:
        """What a record says."""
        self._by_name[name] = message

    def read(self, name: str) -> ProducerRecord:
        """What a client reads where a record of that name is."""
        return self._by_name.get(name) or ProducerRecord(None, name.encode(), START)


class Naming(dict[int, str]):
    """Names of one producer's records by their ids, each made when it is first asked for.

    Args:
        prefix: what they begin with; no other producer has it.
        messages: of the records, by their ids; at least until they are sent.
        contents: keeps what they say.
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
