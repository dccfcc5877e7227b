"""Entries in list responses that existed before the recording.

Metadata of all topics, ListGroups and ListTransactions return everything. Entries created in the
history are compared strictly. An entry that only the recorded response has, and nothing in the
history created, existed before: it is ignored and counted.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from brokertwin.protocol.kafka_apis import (
    CREATE_TOPICS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
    METADATA,
    Trait,
)
from brokertwin.recordings.replay.choices import CREATED_SOON, INTERNAL_TOPICS
from brokertwin.recordings.replay.recording import Exchange

TOPIC, GROUP, TRANSACTION = "topic", "group", "transaction"

ENTRIES = {
    METADATA.key: (TOPIC, "topics", "name"),
    LIST_GROUPS.key: (GROUP, "groups", "groupId"),
    LIST_TRANSACTIONS.key: (TRANSACTION, "transactionStates", "transactionalId"),
}
"""Kind, list field and name field of the entries, by API key."""


class EarlierState:
    """Separates entries created in a history from earlier ones."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self._made: dict[tuple[str, str], int] = {}
        for exchange in exchanges:
            for made in created(exchange):
                first = self._made.get(made, exchange.time)
                self._made[made] = min(first, exchange.time)

    def without(self, exchange: Exchange, expected: Any, got: Any) -> Any:
        """Return the recorded response without earlier entries.

        Only entries that the model's response lacks are removed. Both are prepared: their lists are
        maps by key. Returns the same object if nothing is removed.
        """
        entries = ENTRIES.get(exchange.header.request_api_key)
        if entries is None or not _is_of_all(exchange) or not isinstance(got, dict):
            return expected
        kind, field, name = entries
        listed, got_entries = expected.get(field), got.get(field)
        if not isinstance(listed, dict) or not isinstance(got_entries, dict):
            return expected
        old = {
            key
            for key, entry in listed.items()
            if key not in got_entries and not self._has(exchange, kind, str(entry.get(name)))
        }
        if not old:
            return expected
        kept = type(listed)({key: entry for key, entry in listed.items() if key not in old})
        return {**expected, field: kept}

    def _has(self, exchange: Exchange, kind: str, name: str) -> bool:
        """Whether the history created it by the time of the response."""
        made = self._made.get((kind, name))
        return made is not None and made <= exchange.end


def _is_of_all(exchange: Exchange) -> bool:
    if exchange.header.request_api_key != METADATA.key:
        return True
    topics = exchange.body().get("topics")
    return topics is None or (not topics and exchange.version == 0)


def created(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Yield topics, groups and transactional ids that an exchange may create."""
    key, body, response = exchange.header.request_api_key, exchange.body(), exchange.response
    if exchange.has(Trait.MAKES_GROUPS):
        yield GROUP, str(body.get("groupId"))
    elif key == INIT_PRODUCER_ID.key and body.get("transactionalId"):
        yield TRANSACTION, body["transactionalId"]
    elif key == FIND_COORDINATOR.key and 0 <= body.get("keyType", 0) < len(INTERNAL_TOPICS):
        yield TOPIC, INTERNAL_TOPICS[body.get("keyType", 0)]
    elif key in (CREATE_TOPICS.key, METADATA.key) and isinstance(response, dict):
        made = {0} if key == CREATE_TOPICS.key else CREATED_SOON
        for topic in response.get("topics", ()):
            if topic.get("errorCode") in made and topic.get("name"):
                yield TOPIC, topic["name"]
