"""Functions that give what they made last again, whose memory is bounded by count and by size.

Keys of items and hashes of names are asked for with each event, several times. Most are short; a
client may give a group a name of 32,767 characters, and thousands of those are not to be kept.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

CHARS_KEPT = 1 << 21
"""Characters and bytes that each function keeps, of what it is given and what it makes."""

Words = ParamSpec("Words")
Made = TypeVar("Made")


def remembering(most: int) -> Callable[[Callable[Words, Made]], Callable[Words, Made]]:
    """Makes a pure function keep what it has made of its last `most` words.

    A look-up costs what `lru_cache` costs. What is made is counted, and where that comes to
    `CHARS_KEPT` all is forgotten: those in use are soon there again.
    """

    def of(make: Callable[Words, Made]) -> Callable[Words, Made]:
        size = 0

        def make_and_count(*words: Words.args, **named: Words.kwargs) -> Made:
            nonlocal size
            made = make(*words, **named)
            size += sum(len(each) for each in (*words, made) if isinstance(each, str | bytes))
            if size > CHARS_KEPT:
                size = 0
                cached.cache_clear()
            return made

        cached = lru_cache(maxsize=most)(make_and_count)
        return cast("Callable[Words, Made]", cached)

    return of
