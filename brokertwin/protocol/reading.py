"""Generated functions that read a message in one version.

Each takes bytes and the position of a message, and returns its body and the next position. Every
length is checked against the available bytes before allocation.
"""

import base64
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from brokertwin.protocol.code import FORMATS, Code, form_of, is_flexible, runs
from brokertwin.protocol.frame_primitives import FrameReader
from brokertwin.protocol.primitives import STRING_BYTES_MAX, MalformedError, uuid_of
from brokertwin.protocol.schemas import Field

Read = Callable[[bytes, int], tuple[Any, int]]

CHECKED_FROM_BYTES = STRING_BYTES_MAX // 3
"""Shorter strings stay short enough if each byte is replaced by U+FFFD, as in Kafka."""

DOUBLE_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""Names of infinite doubles in Kafka's request log; NaN is compared separately."""


def reader_of(title: str, fields: Sequence[Field], version: int, flexible: bool) -> Read:
    """Generate the function that reads a message."""
    writer = _Writer(title, version)
    return writer.finish(writer.struct(fields, flexible))


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of several bytes."""
    second = data[position + 1]
    if second < 0x80:
        return data[position] & 0x7F | second << 7, position + 2
    reader = FrameReader(data, position)
    return reader.uvarint(), reader.position


def _wrong_length(size: int, position: int, end: int) -> MalformedError:
    if size < 0:
        return MalformedError(f"length {size} before byte {position}")
    return MalformedError(f"{size} wanted at byte {position}, {end - position} bytes are there")


def _too_long(size: int, position: int) -> MalformedError:
    return MalformedError(
        f"a string of {size} bytes at byte {position}; {STRING_BYTES_MAX} at most, as in Kafka"
    )


def _check_text(text: str, position: int) -> None:
    """Raise MalformedError if a string is longer than its bytes, and too long to be written."""
    size = len(text.encode())
    if size > STRING_BYTES_MAX:
        raise _too_long(size, position)


def _double(value: float) -> float | str:
    return value if math.isfinite(value) else DOUBLE_NAMES.get(value, "NaN")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _tags(
    data: bytes, position: int, body: dict[str, Any], known: dict[int, tuple[str, Read]]
) -> int:
    """Read tagged fields into a body; skip unknown ones."""
    reader = FrameReader(data, position)
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        if size > reader.remaining:
            raise reader.truncated(size)
        end = reader.position + size
        if tag in known:
            name, read = known[tag]
            body[name], behind = read(data, reader.position)
            if behind != end:
                raise MalformedError(f"tag {tag} ({name}) has not the size that it tells")
        reader.position = end
    return reader.position


_NAMES = {
    "uvarint": _uvarint,
    "wrong_length": _wrong_length,
    "too_long": _too_long,
    "check_text": _check_text,
    "double": _double,
    "base64": _base64,
    "tags": _tags,
    "uuid_of": uuid_of,
    "unpack_from": struct.unpack_from,
}
_SHOWN = {"uuid": "uuid_of({})", "float64": "double({})"}
"""Conversions of fixed-size values."""


class _Writer:
    """Generates code: `data` are the bytes, `at` the position, `end` their number."""

    def __init__(self, title: str, version: int) -> None:
        self._title = title
        self._version = version
        self._code = Code(title, "def made(data, at):", _NAMES)
        self._code.add("end = len(data)")

    def finish(self, result: str) -> Read:
        """Compile the function; its errors name the field."""
        self._code.add(f"return {result}, at")
        code, made = self._code, self._code.made()

        def read(data: bytes, at: int) -> tuple[Any, int]:
            try:
                found: tuple[Any, int] = made(data, at)
            except MalformedError as error:
                raise MalformedError(f"{code.field_of(error)}: {error}") from None
            except (IndexError, struct.error) as error:
                text = f"{code.field_of(error)}: the {len(data)} bytes end too early"
                raise MalformedError(text) from None
            return found

        return read

    def struct(self, fields: Sequence[Field], flexible: bool) -> str:
        """Generate code that reads a struct; return the name of its value."""
        code = self._code
        present = [field for field in fields if self._version in field.versions]
        regular = [field for field in present if field.tag is None]
        values: list[tuple[Field, str]] = []
        for run in runs(regular):
            values += self._run(run, flexible)
        body = code.local("body")
        items = ", ".join(f"{field.name!r}: {value}" for field, value in values)
        code.add(f"{body} = {{{items}}}")
        if flexible:
            known = {
                field.tag: (field.name, self._tagged(field))
                for field in present
                if field.tag is not None
            }
            tags = code.constant("tags", known)
            code.add("if data[at]:", f"    at = tags(data, at, {body}, {tags})")
            code.add("else:", "    at += 1")
        return body

    def _tagged(self, field: Field) -> Read:
        """Generate the function that reads a tagged field, always in compact form."""
        writer = _Writer(f"{self._title} {field.name}", self._version)
        return writer.finish(writer.field(field, True))

    def _run(self, fields: list[Field], flexible: bool) -> list[tuple[Field, str]]:
        """Generate code that reads adjacent fixed-size fields, or another field."""
        if fields[0].is_array or fields[0].type not in FORMATS:
            return [(fields[0], self.field(fields[0], flexible))]
        names = [self._code.local("value") for _ in fields]
        form = form_of(fields)
        unpack = self._code.constant("unpack", form.unpack_from)
        text = ", ".join(field.name for field in fields)
        self._code.add(f"{', '.join(names)}, = {unpack}(data, at)", field=text)
        self._code.add(f"at += {form.size}")
        shown = [_SHOWN.get(field.type, "{}") for field in fields]
        return [
            (field, show.format(name))
            for field, show, name in zip(fields, shown, names, strict=True)
        ]

    def field(self, field: Field, flexible: bool) -> str:
        """Generate code that reads a field; return the name of its value."""
        flexible = is_flexible(field, self._version, flexible)
        is_nullable = self._version in field.nullable
        value = self._code.local("value")

        def read() -> None:
            if field.is_array:
                self._array(value, field, flexible, is_nullable)
            elif field.type in FORMATS:
                self._code.add(f"{value} = {self._run([field], flexible)[0][1]}")
            elif field.type != "struct":
                self._sized(value, field.type, flexible, is_nullable)
            elif is_nullable:
                self._nullable_struct(value, field, flexible)
            else:
                self._code.add(f"{value} = {self.struct(field.fields, flexible)}")

        self._code.about(field.name, read)
        return value

    def _nullable_struct(self, value: str, field: Field, flexible: bool) -> None:
        def read() -> None:
            self._code.add(f"{value} = {self.struct(field.fields, flexible)}")

        self._code.add(f"{value} = None", "at += 1")
        self._code.block("if data[at - 1] < 128:", read)

    def _length(
        self, size: str, form: str, flexible: bool, is_nullable: bool, most: int | None = None
    ) -> None:
        """Generate code that reads a length into `size`, and checks it; -1 is null."""
        code = self._code
        if flexible:
            code.add(f"{size} = data[at] - 1", "at += 1")
            code.add(f"if {size} > 126:", f"    {size}, at = uvarint(data, at - 1)")
            code.add(f"    {size} -= 1")
            if most is not None:
                code.add(f"    if {size} > {most}:", f"        raise too_long({size}, at)")
        else:
            unpack = code.constant("unpack", struct.Struct(form).unpack_from)
            code.add(f"{size}, = {unpack}(data, at)", f"at += {struct.calcsize(form)}")
        least = -1 if is_nullable else 0
        code.add(f"if {size} < {least} or at + {size} > end:")
        code.add(f"    raise wrong_length({size}, at, end)")

    def _sized(self, value: str, kind: str, flexible: bool, is_nullable: bool) -> None:
        """Generate code that reads a string or bytes."""
        code = self._code
        size = code.local("size")
        is_string = kind == "string"
        most = STRING_BYTES_MAX if is_string else None
        self._length(size, ">h" if is_string else ">i", flexible, is_nullable, most)
        held = f"data[at : at + {size}]"
        shown = {
            "string": f"str({held}, 'utf-8', 'replace')",
            "bytes": f"base64({held})",
        }.get(kind, held)
        if is_nullable:
            code.add(f"if {size} < 0:", f"    {value} = None", "else:")
            code.add(f"    {value} = {shown}", f"    at += {size}")
        else:
            code.add(f"{value} = {shown}", f"at += {size}")
        if is_string:
            code.add(f"if {size} > {CHECKED_FROM_BYTES}:", f"    check_text({value}, at)")

    def _array(self, value: str, field: Field, flexible: bool, is_nullable: bool) -> None:
        code = self._code
        count = code.local("count")
        self._length(count, ">i", flexible, is_nullable)

        def elements() -> None:
            code.add(f"{value} = []")
            code.block(f"for _ in range({count}):", lambda: code.add(f"{value}.append({one()})"))

        def one() -> str:
            if field.type == "struct":
                return self.struct(field.fields, flexible)
            if field.type in FORMATS:
                return self._run([field._replace(is_array=False)], flexible)[0][1]
            element = code.local("element")
            self._sized(element, field.type, flexible, False)
            return element

        if is_nullable:
            code.add(f"{value} = None")
            code.block(f"if {count} >= 0:", elements)
        else:
            elements()
