"""Registers the rules that write records into tables: `@applies(TopicCreated)` beside the rule."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

APPLIERS: dict[type, Callable[..., Any]] = {}
"""Type of a record to the function that applies it: `apply(tables, machine, record)`."""


def applies(kind: type, to: str = "") -> Callable[[F], F]:
    """Register a function for a type of records.

    Args:
        kind: type of the records.
        to: name of the only table that the function gets; empty for all tables.
    """

    def register(function: F) -> F:
        def apply_to_table(tables: Any, machine: int, record: Any) -> Any:
            return function(getattr(tables, to), machine, record)

        APPLIERS[kind] = apply_to_table if to else function
        return function

    return register
