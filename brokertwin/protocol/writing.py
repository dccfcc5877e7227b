"""Generated functions that write a message in one version.

Each appends a body to a bytearray. Missing fields get their default.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from brokertwin.protocol.bodies import RenderedPart
from brokertwin.protocol.code import FORMATS, Code, form_of, is_flexible, runs
from brokertwin.protocol.frame_primitives import NotEncodableError, uuid_bytes, write_uvarint
from brokertwin.protocol.primitives import STRING_BYTES_MAX
from brokertwin.protocol.schemas import Field

Write = Callable[[bytearray, Any], None]

MINUS_ONE = b"\xff\xff\xff\xff"
"""Length of null, in two bytes or in four."""

DOUBLES = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""Names of non-finite doubles in Kafka's request log."""


def writer_of(title: str, fields: Sequence[Field], version: int, flexible: bool) -> Write:
    """Generate the function that writes a message."""
    writer = _Writer(title, version)
    writer.struct("value", fields, flexible)
    return writer.finish()


def _string(value: str) -> bytes:
    data = value.encode("utf-8")
    if len(data) > STRING_BYTES_MAX:
        raise NotEncodableError(f"a string of {len(data)} bytes; {STRING_BYTES_MAX} at most")
    return data


def _bytes(value: str | bytes) -> bytes:
    """Return bytes, decoded from base64 if the body has a string."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise NotEncodableError(f"{value!r:.50} is not base64") from None


def _double(value: float | str) -> float:
    return DOUBLES[value] if isinstance(value, str) else value


def _null() -> NotEncodableError:
    return NotEncodableError("null, which this version does not have here")


Tagged = tuple[int, str, Any, Write]
"""Tag, name, default and writer."""


def _tags(out: bytearray, body: dict[str, Any], tagged: list[Tagged]) -> None:
    """Append the tagged fields of a body, except those with their default."""
    sent = [each for each in tagged if each[1] in body and body[each[1]] != each[2]]
    write_uvarint(out, len(sent))
    for tag, name, _, write in sent:
        content = bytearray()
        write(content, body[name])
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content


_NAMES = {
    "RenderedPart": RenderedPart,
    "string": _string,
    "bytes_of": _bytes,
    "double": _double,
    "null": _null,
    "tags": _tags,
    "uuid_bytes": uuid_bytes,
    "write_uvarint": write_uvarint,
}
_HELD = {"uuid": "uuid_bytes({})", "float64": "double({})"}
"""Conversions of fixed-size values."""

_REFUSED = (TypeError, AttributeError, KeyError, struct.error)


class _Writer:
    """Generates code: `out` is the target, `value` the body."""

    def __init__(self, title: str, version: int) -> None:
        self._title = title
        self._version = version
        self._code = Code(title, "def made(out, value):", _NAMES)

    def finish(self) -> Write:
        """Compile the function; its errors name the field."""
        self._code.add("return")
        code, made = self._code, self._code.made()

        def write(out: bytearray, value: Any) -> None:
            try:
                made(out, value)
            except NotEncodableError as error:
                raise NotEncodableError(f"{code.field_of(error)}: {error}") from None
            except _REFUSED as error:
                raise NotEncodableError(f"{code.field_of(error)}: {error!r}") from None

        return write

    def struct(self, body: str, fields: Sequence[Field], flexible: bool) -> None:
        """Generate code that writes a struct, named `body`."""
        code = self._code
        present = [field for field in fields if self._version in field.versions]
        get = code.local("get")
        code.add(f"{get} = {body}.get")
        for run in runs([field for field in present if field.tag is None]):
            if run[0].is_array or run[0].type not in FORMATS:
                value = code.local("value")
                code.add(f"{value} = {self._got(get, run[0])}")
                self.field(value, run[0], flexible)
            else:
                self._numbers(run, [self._got(get, field) for field in run])
        if flexible:
            tagged = [self._tagged(field) for field in present if field.tag is not None]
            tagged.sort(key=itemgetter(0))
            if tagged:
                names = code.constant("names", frozenset(name for _, name, _, _ in tagged))
                code.add(f"if {names}.isdisjoint({body}):", "    out.append(0)", "else:")
                code.add(f"    tags(out, {body}, {code.constant('tagged', tagged)})")
            else:
                code.add("out.append(0)")

    def _got(self, get: str, field: Field) -> str:
        return f"{get}({field.name!r}, {self._code.constant('default', self._default(field))})"

    def _default(self, field: Field) -> Any:
        if field.default is None and self._version not in field.nullable:
            return [] if field.is_array else ""
        return field.default

    def _tagged(self, field: Field) -> Tagged:
        """Return a tagged field with its writer, always in compact form."""
        assert field.tag is not None
        writer = _Writer(f"{self._title} {field.name}", self._version)
        writer.field("value", field, True)
        return field.tag, field.name, self._default(field), writer.finish()

    def _numbers(self, fields: list[Field], values: list[str]) -> None:
        """Generate code that writes adjacent fixed-size fields."""
        pack = self._code.constant("pack", form_of(fields).pack)
        held = [
            _HELD.get(field.type, "{}").format(value)
            for field, value in zip(fields, values, strict=True)
        ]
        text = ", ".join(field.name for field in fields)
        self._code.add(f"out += {pack}({', '.join(held)})", field=text)

    def field(self, value: str, field: Field, flexible: bool) -> None:
        """Generate code that writes a field, whose value is named `value`."""
        flexible = is_flexible(field, self._version, flexible)
        code = self._code

        def write() -> None:
            if field.is_array:
                self._array(value, field, flexible)
            elif field.type in FORMATS:
                self._numbers([field], [value])
            elif field.type != "struct":
                self._sized(value, field.type, flexible)
            else:
                if self._version in field.nullable:
                    code.add("out.append(1)")
                self.struct(value, field.fields, flexible)

        def write_null_or() -> None:
            is_sized = field.is_array or field.type not in (*FORMATS, "struct")
            if self._version in field.nullable:
                null = "out.append(255)"
                if is_sized:
                    size = 2 if field.type == "string" and not field.is_array else 4
                    null = "out.append(0)" if flexible else f"out += {MINUS_ONE[:size]!r}"
                code.add(f"if {value} is None:", f"    {null}")
                code.block("else:", write)
                return
            if is_sized:
                code.add(f"if {value} is None:", "    raise null()")
            write()

        code.about(field.name, write_null_or)

    def _length(self, size: str, form: str, flexible: bool) -> None:
        code = self._code
        if flexible:
            code.add(f"if {size} < 127:", f"    out.append({size} + 1)", "else:")
            code.add(f"    write_uvarint(out, {size} + 1)")
        else:
            code.add(f"out += {code.constant('pack', struct.Struct(form).pack)}({size})")

    def _sized(self, value: str, kind: str, flexible: bool) -> None:
        """Generate code that writes a string or bytes."""
        code = self._code
        data, size = code.local("data"), code.local("size")
        code.add(f"{data} = {'string' if kind == 'string' else 'bytes_of'}({value})")
        code.add(f"{size} = len({data})")
        self._length(size, ">h" if kind == "string" else ">i", flexible)
        code.add(f"out += {data}")

    def _once(self, element: str, field: Field, write: Callable[[], None]) -> None:
        """Generate code that writes a struct; the bytes of a `RenderedPart` are cached."""
        code = self._code
        begin, kept = code.local("begin"), code.local("kept")
        key = f"{self._title}: {field.name}"
        code.add(f"{begin} = -1", f"if {element}.__class__ is RenderedPart:")
        code.add(f"    {kept} = {element}.kept.get({key!r})", f"    if {kept} is not None:")
        code.add(f"        out += {kept}", "        continue", f"    {begin} = len(out)")
        write()
        code.add(f"if {begin} >= 0:", f"    {element}.kept[{key!r}] = bytes(out[{begin}:])")

    def _array(self, value: str, field: Field, flexible: bool) -> None:
        code = self._code
        count, element = code.local("count"), code.local("element")
        code.add(f"{count} = len({value})")
        self._length(count, ">i", flexible)

        def one() -> None:
            if field.type == "struct" and code.is_about_first:
                self._once(element, field, lambda: self.struct(element, field.fields, flexible))
            elif field.type == "struct":
                self.struct(element, field.fields, flexible)
            elif field.type in FORMATS:
                self._numbers([field], [element])
            else:
                self._sized(element, field.type, flexible)

        code.block(f"for {element} in {value}:", one)
