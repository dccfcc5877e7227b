"""What a task's processors keep by key, and what has changed of it.

Source: `InMemoryKeyValueStore`, `ChangeLoggingKeyValueBytesStore` in Kafka. Each change is a record
of the store's changelog topic; who reads that from the beginning has the store.
"""


class KeyValueStore:
    """Keys and values in memory; `changes` are those that are not written to the changelog yet."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self.changes: list[tuple[bytes, bytes | None]] = []

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._values.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets a key's value; None takes the key out."""
        self.restore(key, value)
        self.changes.append((key, value))

    def restore(self, key: bytes, value: bytes | None) -> None:
        """The same, as the changelog tells it."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def range(
        self, first: bytes | None = None, last: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """The keys from `first` to `last`, both of them too, in order, with their values.

        None: from the least, to the greatest. Another thread may ask while the store changes.
        """
        values = self._values.copy()
        keys = sorted(key for key in values if first is None or key >= first)
        return [(key, values[key]) for key in keys if last is None or key <= last]

    def __len__(self) -> int:
        return len(self._values)
