"""A task's key-value store and its changes.

Source: `InMemoryKeyValueStore`, `ChangeLoggingKeyValueBytesStore` in Kafka. Each change is a record
of the changelog topic, so reading that from the beginning restores the store.
"""


class KeyValueStore:
    """An in-memory store; `changes` are not yet in the changelog."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self.changes: list[tuple[bytes, bytes | None]] = []

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes it."""
        self.restore(key, value)
        self.changes.append((key, value))

    def restore(self, key: bytes, value: bytes | None) -> None:
        """Apply a changelog record."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def range(
        self, first: bytes | None = None, last: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return the items from `first` to `last`, inclusive, in key order.

        None means no bound. May be called from another thread during changes.
        """
        values = self._values.copy()
        keys = sorted(key for key in values if first is None or key >= first)
        return [(key, values[key]) for key in keys if last is None or key <= last]

    def __len__(self) -> int:
        return len(self._values)
