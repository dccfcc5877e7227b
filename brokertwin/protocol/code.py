"""Python code generated at run time, and the field that each line handles.

A codec of nested functions would look up the schema for every value. Instead, one function is
generated for each message and version. It reads or writes adjacent numbers at once and makes nearly
no calls.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from brokertwin.protocol.schemas import Field

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
"""Fixed-size types to their `struct` codes, big-endian."""


class Code:
    """A function under construction.

    Args:
        title: file name in tracebacks, which identifies errors of this code.
        head: first line, `def …`.
        names: names that the code may use.
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
        """Return a unique local name."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Return a name for a constant."""
        name = self.local(f"_{stem}")
        self._names[name] = value
        return name

    def add(self, *lines: str, field: str | None = None) -> None:
        """Add lines at this depth; they handle `field`, or the current one."""
        path = self._path if field is None else (*self._path, field)
        for line in lines:
            self._lines.append("    " * self._depth + line)
            self._fields.append(path)

    def block(self, head: str, write: Callable[[], None]) -> None:
        """Add a line, and what `write` adds, one level deeper."""
        self.add(head)
        self._depth += 1
        write()
        self._depth -= 1

    def about(self, field: str, write: Callable[[], None]) -> None:
        """Attribute what `write` adds to a field."""
        before = self._path
        self._path = (*before, field)
        write()
        self._path = before

    @property
    def is_about_first(self) -> bool:
        """True for a field of the message itself, not of a nested struct."""
        return len(self._path) == 1

    def made(self) -> Callable[..., Any]:
        """Compile the function."""
        text = "\n".join([self._head, *self._lines])
        exec(compile(text, self._title, "exec"), self._names)
        made: Callable[..., Any] = self._names["made"]
        return made

    def field_of(self, error: BaseException) -> str:
        """Return the field whose code raised an error, or the title."""
        where = error.__traceback__
        found = ""
        while where is not None:
            if where.tb_frame.f_code.co_filename == self._title:
                line = where.tb_lineno - 2  # the head is line 1
                found = ": ".join(self._fields[line]) if line >= 0 else ""
            where = where.tb_next
        return found or self._title


def runs(fields: Sequence[Field]) -> list[list[Field]]:
    """Group adjacent fixed-size fields, in order."""
    found: list[list[Field]] = []
    for field in fields:
        is_fixed = field.type in FORMATS and not field.is_array
        if is_fixed and found and found[-1][0].type in FORMATS and not found[-1][0].is_array:
            found[-1].append(field)
        else:
            found.append([field])
    return found


def form_of(fields: Sequence[Field]) -> struct.Struct:
    """Return the struct of adjacent fixed-size fields."""
    return struct.Struct(">" + "".join(FORMATS[field.type] for field in fields))


def is_flexible(field: Field, version: int, message_is: bool) -> bool:
    """True if a field has compact lengths; by default as its message."""
    return message_is if field.flexible is None else version in field.flexible
