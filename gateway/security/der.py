"""The elements of DER, in which certificates are written; the bytes have to be well-formed."""

from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """An element of DER: its tag, where it begins, and where its contents begin and end."""

    tag: int
    begin: int
    content: int
    end: int


def part(data: bytes, at: int) -> Part:
    """The element that begins there."""
    size, content = data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[content : content + count], "big")
        content += count
    return Part(data[at], at, content, content + size)


def parts(data: bytes, outer: Part) -> Iterator[Part]:
    """The elements within another one."""
    at = outer.content
    while at < outer.end:
        found = part(data, at)
        yield found
        at = found.end


def oid(data: bytes) -> str:
    """An object identifier as people write it."""
    numbers = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
