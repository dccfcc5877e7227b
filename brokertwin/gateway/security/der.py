"""DER elements of well-formed certificates."""

from collections.abc import Iterator
from typing import NamedTuple


class DerElement(NamedTuple):
    tag: int
    begin: int
    content: int
    end: int


def part(data: bytes, at: int) -> DerElement:
    size, content = data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[content : content + count], "big")
        content += count
    return DerElement(data[at], at, content, content + size)


def parts(data: bytes, outer: DerElement) -> Iterator[DerElement]:
    at = outer.content
    while at < outer.end:
        element = part(data, at)
        yield element
        at = element.end


def oid(data: bytes) -> str:
    """Format an object identifier in dotted form."""
    numbers = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
