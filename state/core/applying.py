"""Registers the rules that write records into tables: `@applies(TopicCreated)` beside the rule."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

APPLIERS: dict[type, Callable[..., Any]] = {}
"""Type of a record to the function that applies it: `apply(at, record)`."""


def applies(kind: type) -> Callable[[F], F]:
    """Register a function for a type of records."""

    def register(function: F) -> F:
        APPLIERS[kind] = function
        return function

    return register
