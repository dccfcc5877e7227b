"""Caches of pure functions that are bounded by count and by size.

Keys of items and hashes of names are used several times for each event. Most are short, but a group
name may have 32,767 characters, and thousands of those must not be cached.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

CHARS_KEPT = 1 << 21
"""Characters and bytes that each function caches, in arguments and results."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


def bounded_cache(most: int) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]:
    """Cache the last `most` results of a pure function.

    A look-up costs the same as with `lru_cache`. At `CHARS_KEPT` the whole cache is dropped;
    results in use soon return.
    """

    def of(function: Callable[Params, Result]) -> Callable[Params, Result]:
        size = 0

        def call_and_count(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            nonlocal size
            result = function(*args, **kwargs)
            size += sum(len(each) for each in (*args, result) if isinstance(each, str | bytes))
            if size > CHARS_KEPT:
                size = 0
                cached.cache_clear()
            return result

        cached = lru_cache(maxsize=most)(call_and_count)
        return cast("Callable[Params, Result]", cached)

    return of
