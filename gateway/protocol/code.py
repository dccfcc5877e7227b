"""Python code that is made while the program runs, and the fields that its lines are about.

A codec made of nested functions asks for each value of each message what the schema has said once
for all. So of each message and version one function is written in which numbers that follow each
other are read or written in one go, and that calls nearly nothing.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from brokertwin.gateway.protocol.schema import Field

FORMATS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
"""The types of one size, as `struct` calls them; all are big-endian."""


class Code:
    """A function that is being written.

    Args:
        title: what it is for; stands in tracebacks, and errors are found by it.
        head: its first line, `def …`.
        names: what the code may call.
    """

    def __init__(self, title: str, head: str, names: dict[str, Any]) -> None:
        self._title = title
        self._head = head
        self._lines: list[str] = []
        self._fields: list[tuple[str, ...]] = []
        self._names = dict(names)
        self._depth = 1
        self._count = 0
        self._path: tuple[str, ...] = ()

    def local(self, stem: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for a value that the code needs."""
        name = self.local(f"_{stem}")
        self._names[name] = value
        return name

    def add(self, *lines: str, field: str | None = None) -> None:
        """Lines at this depth; they are about `field`, or about the one that is being written."""
        path = self._path if field is None else (*self._path, field)
        for line in lines:
            self._lines.append("    " * self._depth + line)
            self._fields.append(path)

    def block(self, head: str, write: Callable[[], None]) -> None:
        """A line, and what `write` adds below it, one step deeper."""
        self.add(head)
        self._depth += 1
        write()
        self._depth -= 1

    def about(self, field: str, write: Callable[[], None]) -> None:
        """What `write` adds is about a field."""
        before = self._path
        self._path = (*before, field)
        write()
        self._path = before

    @property
    def is_about_first(self) -> bool:
        """Whether it is about a field of the message itself, not of a struct in it."""
        return len(self._path) == 1

    def made(self) -> Callable[..., Any]:
        """The function."""
        text = "\n".join([self._head, *self._lines])
        exec(compile(text, self._title, "exec"), self._names)
        made: Callable[..., Any] = self._names["made"]
        return made

    def field_of(self, error: BaseException) -> str:
        """Which field the code was about when it raised; its title where it was about none."""
        where = error.__traceback__
        found = ""
        while where is not None:
            if where.tb_frame.f_code.co_filename == self._title:
                line = where.tb_lineno - 2  # the head is line 1
                found = ": ".join(self._fields[line]) if line >= 0 else ""
            where = where.tb_next
        return found or self._title


def runs(fields: Sequence[Field]) -> list[list[Field]]:
    """Fields in their order; those of one size that follow each other are together."""
    found: list[list[Field]] = []
    for field in fields:
        is_fixed = field.type in FORMATS and not field.is_array
        if is_fixed and found and found[-1][0].type in FORMATS and not found[-1][0].is_array:
            found[-1].append(field)
        else:
            found.append([field])
    return found


def form_of(fields: Sequence[Field]) -> struct.Struct:
    """How fields of one size lie one behind the other."""
    return struct.Struct(">" + "".join(FORMATS[field.type] for field in fields))


def is_flexible(field: Field, version: int, message_is: bool) -> bool:
    """Whether a field has compact lengths: as its message, unless it says otherwise itself."""
    return message_is if field.flexible is None else version in field.flexible
