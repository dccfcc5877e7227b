"""Runs a coroutine at once, like the eager tasks of Python 3.12.

A coroutine that does not wait needs no task, and no turn of the event loop.
"""

import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any


def started(coroutine: Coroutine[Any, None, None]) -> Awaitable[None] | None:
    """Run a coroutine up to its first wait; return the rest, or None at its end.

    Until then it has no current task. Raises what the coroutine raises.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return _rest(coroutine, awaited)


@types.coroutine
def _rest(coroutine: Coroutine[Any, None, None], awaited: Any) -> Generator[Any, None, None]:
    """Continue a coroutine: pass on what it awaits, and how that ends."""
    while True:
        error = None
        try:
            yield awaited
        except BaseException as ended_with:  # noqa: BLE001 (the coroutine's to handle)
            error = ended_with
        try:
            awaited = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration:
            return
