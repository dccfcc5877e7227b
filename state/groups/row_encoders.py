"""Makes rows of records whose fields have the names of Kafka's."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.state.core.wire.rows import Row, RowKey

T = TypeVar("T")


class Encoder(NamedTuple):
    """Makes the row of a record: its key, and the value or None."""

    key: type[RowKey]
    value: Callable[[Any], Row | None]


def alike(source: object, kind: type[T]) -> T:
    """A struct with the fields of another one that has the same names."""
    return msgspec.convert(source, kind, from_attributes=True)


def of_field(name: str, kind: type[Row]) -> Callable[[Any], Row | None]:
    """The value has the fields of a field of the record, which is None in a tombstone."""

    def value(record: Any) -> Row | None:
        found = getattr(record, name)
        return None if found is None else alike(found, kind)

    return value


def of_epoch(name: str, kind: type[Row]) -> Callable[[Any], Row | None]:
    """The value has the fields of the record, whose epoch is None in a tombstone."""
    return lambda record: None if getattr(record, name) is None else alike(record, kind)
