"""Strings in Java class files."""

import struct

UTF8, STRING = 1, 8
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5}
"""Of the other constants, with their tag (JVM Specification, 4.4)."""

WIDE = (5, 6)
"""Take two numbers in the pool."""


def strings_in(content: bytes) -> list[str]:
    """The string constants of a class, in the order of the pool."""
    (count,) = struct.unpack_from(">H", content, 8)
    at, number = 10, 1
    texts: dict[int, str] = {}
    strings: list[int] = []
    while number < count:
        tag = content[at]
        if tag == UTF8:
            (length,) = struct.unpack_from(">H", content, at + 1)
            texts[number] = content[at + 3 : at + 3 + length].decode()
            at += 3 + length
        elif tag == STRING:
            strings += struct.unpack_from(">H", content, at + 1)
            at += 3
        else:
            at += SIZES[tag]
        number += 1 + (tag in WIDE)
    return [texts[each] for each in strings]
