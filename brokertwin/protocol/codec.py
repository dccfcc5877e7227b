"""The codec: bytes of a message or a row in one version, to a struct or a document and back.

One function is generated for each message, version and kind of body, on first use. It reads or
writes adjacent numbers at once and makes nearly no calls, because a codec of nested functions
would look up the schema for every value. Each length is checked before memory is allocated.

A body is a generated struct (`brokertwin/protocol/generated`), or a dictionary in the form of
Kafka's request log (`RequestConvertToJson`): camelCase names, only fields of the version, uuids in
base64url, bytes in base64, tagged fields only if sent. Record sets stay bytes, for
`brokertwin/protocol/record_batches.py`.

A struct has only the fields that the model reads. A writer gives others, and those that its
annotations exclude from the version, their default. Missing keys of a dictionary get it, too. As in
Kafka, unknown tags and bytes after the message are ignored.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from brokertwin.protocol import bodies
from brokertwin.protocol.bodies import CachedBody, FieldVersions
from brokertwin.protocol.generated.renamed import RENAMED
from brokertwin.protocol.primitives import (
    STRING_BYTES_MAX,
    MalformedError,
    NotEncodableError,
    read_uvarint,
    uuid_bytes,
    uuid_of,
    write_uvarint,
)
from brokertwin.protocol.schemas import MODELLED_NAMES, Field, schema_of, snake

Body = dict[str, Any]
Kind = type[msgspec.Struct] | None
"""The struct of a body; None for a dictionary."""

Read = Callable[[bytes, int], tuple[Any, int]]
"""Takes bytes and the position of a message; returns its body and the next position."""

Write = Callable[[bytearray, Any], None]
"""Appends a body."""

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

CHECKED_FROM_BYTES = STRING_BYTES_MAX // 3
"""Shorter strings stay short enough if each byte is replaced by U+FFFD, as in Kafka."""

MINUS_ONE = b"\xff\xff\xff\xff"
"""Length of null, in two bytes or in four."""

DOUBLES = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""Names of non-finite doubles in Kafka's request log."""

_DOUBLE_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""NaN is compared separately."""


@lru_cache(maxsize=2048)
def message_reader(name: str, version: int, kind: Kind = None) -> Read:
    """Return a function that reads a message, or raises MalformedError. Raises KeyError."""
    message = schema_of(name, version)
    title = f"reading {name} version {version}"
    return reader_of(title, message.fields, version, version in message.flexible, kind)


@lru_cache(maxsize=2048)
def message_writer(name: str, version: int, kind: Kind = None) -> Write:
    """Return a function that appends a message, or raises NotEncodableError. Raises KeyError."""
    message = schema_of(name, version)
    title = f"writing {name} version {version}"
    return writer_of(title, message.fields, version, version in message.flexible, kind)


def reader_of(
    title: str, fields: Sequence[Field], version: int, flexible: bool, kind: Kind = None
) -> Read:
    reader = _Reader(title, version)
    return reader.finish(reader.struct(fields, flexible, kind))


def writer_of(
    title: str, fields: Sequence[Field], version: int, flexible: bool, kind: Kind = None
) -> Write:
    """Generate the function that writes a struct of a message."""
    writer = _Writer(title, version)
    writer.struct("value", fields, flexible, kind)
    return writer.finish()


@lru_cache(maxsize=512)
def request_type(api_key: int) -> type[bodies.Body]:
    """Return the struct of an API's requests. Raises KeyError if the model has none."""
    return _body_type(api_key, "Request")


@lru_cache(maxsize=512)
def response_type(api_key: int) -> type[bodies.Body]:
    """Return the struct of an API's responses. Raises KeyError if the model has none."""
    return _body_type(api_key, "Response")


def _body_type(api_key: int, which: str) -> type[bodies.Body]:
    message = MODELLED_NAMES[api_key] + which
    name = RENAMED.get(message, message)
    module = "shared" if message in RENAMED else snake(MODELLED_NAMES[api_key])
    try:
        found = import_module(f"brokertwin.protocol.generated.{module}")
    except ModuleNotFoundError:
        raise KeyError(f"{message} has no struct") from None
    kind: type[bodies.Body] = vars(found)[name]
    return kind


class _Member(NamedTuple):
    """A field of a struct: its Python name, type hint and default.

    `versions` are those of its annotation, None for all.
    """

    name: str
    hint: Any
    default: Any
    versions: FieldVersions | None


@lru_cache(maxsize=2048)
def _members(kind: type[msgspec.Struct]) -> dict[str, _Member]:
    """Return the fields of a struct by their names: Kafka's in snake case."""
    hints = get_type_hints(kind, include_extras=True)
    members = {}
    for info in msgspec.structs.fields(kind):
        hint, has_factory = hints[info.name], info.default_factory is not msgspec.NODEFAULT
        default = info.default_factory() if has_factory else info.default
        marks = getattr(hint, "__metadata__", ())
        versions = next((mark for mark in marks if isinstance(mark, FieldVersions)), None)
        members[info.name] = _Member(info.name, hint, default, versions)
    return members


def _member(kind: Kind, field: Field) -> _Member | None:
    return None if kind is None else _members(kind).get(snake(field.name))


def _types_in(hint: Any) -> set[Any]:
    """The types of a hint, without annotations, unions and lists around them."""
    if get_origin(hint) is Annotated:
        return _types_in(get_args(hint)[0])
    inner = get_args(hint)
    return set().union(*map(_types_in, inner)) if inner else {hint}


def _inner_kind(member: _Member | None) -> Kind:
    """The struct in a field; None if the field is a dictionary or has none."""
    types = _types_in(member.hint) if member is not None else ()
    return next(
        (each for each in types if isinstance(each, type) and issubclass(each, msgspec.Struct)),
        None,
    )


class _Code:
    """A function under construction, and the field that each line handles.

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
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.local(f"_{stem}")
        self._names[name] = value
        return name

    def add(self, *lines: str, field: str | None = None) -> None:
        """Add lines at this depth; they handle `field`, or the current one."""
        path = self._path if field is None else (*self._path, field)
        for line in lines:
            self._lines.append("    " * (self._depth + 1) + line)
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

    def made(self, handlers: Sequence[str]) -> Callable[..., Any]:
        """Compile the function; `handlers` are its lines for exceptions."""
        text = "\n".join([self._head, "    try:", *self._lines, *handlers])
        exec(compile(text, self._title, "exec"), self._names)
        made: Callable[..., Any] = self._names["made"]
        return made

    def field_of(self, error: BaseException) -> str:
        """Return the field whose code raised an error, or the title."""
        where = error.__traceback__
        field = ""
        while where is not None:
            if where.tb_frame.f_code.co_filename == self._title:
                line = where.tb_lineno - 3  # behind the head and the `try`
                field = ": ".join(self._fields[line]) if 0 <= line < len(self._fields) else ""
            where = where.tb_next
        return field or self._title


def _runs(fields: Sequence[Field]) -> list[list[Field]]:
    """Group adjacent fixed-size fields, in order."""
    runs: list[list[Field]] = []
    for field in fields:
        is_fixed = field.type in FORMATS and not field.is_array
        if is_fixed and runs and runs[-1][0].type in FORMATS and not runs[-1][0].is_array:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _form_of(fields: Sequence[Field]) -> struct.Struct:
    """Return the struct of adjacent fixed-size fields."""
    return struct.Struct(">" + "".join(FORMATS[field.type] for field in fields))


def _is_flexible(field: Field, version: int, message_is: bool) -> bool:
    """True if a field has compact lengths; by default as its message."""
    return message_is if field.flexible is None else version in field.flexible


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
    return value if math.isfinite(value) else _DOUBLE_NAMES.get(value, "NaN")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _read_tags(data: bytes, at: int, tags: dict[int, tuple[str, Read]]) -> tuple[Body, int]:
    """Read the known tagged fields by name; skip others."""
    found: Body = {}
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if size > len(data) - at:
            raise _wrong_length(size, at, len(data))
        if tag in tags:
            name, read = tags[tag]
            found[name], behind = read(data, at)
            if behind != at + size:
                raise MalformedError(f"tag {tag} ({name}) has not the size that it tells")
        at += size
    return found, at


_READER_NAMES = {
    "uvarint": read_uvarint,
    "wrong_length": _wrong_length,
    "too_long": _too_long,
    "check_text": _check_text,
    "double": _double,
    "base64": _base64,
    "tags": _read_tags,
    "uuid_of": uuid_of,
}
_SHOWN = {"uuid": "uuid_of({})", "float64": "double({})"}
"""Conversions of fixed-size values."""


class _Reader:
    """Generates a reader: `data` are the bytes, `at` the position, `end` their number."""

    def __init__(self, title: str, version: int) -> None:
        self._title = title
        self._version = version
        self._code = _Code(title, "def made(data, at):", _READER_NAMES)
        self._code.add("end = len(data)")

    def finish(self, result: str) -> Read:
        """Compile the function; its errors name the field."""
        code = self._code
        code.add(f"return {result}, at")

        def malformed(error: Exception, size: int) -> MalformedError:
            is_named = isinstance(error, MalformedError)
            text = str(error) if is_named else f"the {size} bytes end too early"
            return MalformedError(f"{code.field_of(error)}: {text}")

        caught = code.constant("caught", (MalformedError, IndexError, struct.error))
        raised = f"{code.constant('malformed', malformed)}(error, len(data))"
        return code.made([f"    except {caught} as error:", f"        raise {raised} from None"])

    def struct(self, fields: Sequence[Field], flexible: bool, kind: Kind) -> str:
        """Generate code that reads a struct; return the name of its value."""
        code = self._code
        present = [field for field in fields if self._version in field.versions]
        values: list[tuple[Field, str]] = []
        for run in _runs([field for field in present if field.tag is None]):
            values += self._run(run, flexible, kind)
        body = code.local("body")
        if kind is None:
            items = ", ".join(f"{field.name!r}: {value}" for field, value in values)
            code.add(f"{body} = {{{items}}}")
        else:
            members = [(_member(kind, field), value) for field, value in values]
            text = ", ".join(f"{each.name}={value}" for each, value in members if each is not None)
            code.add(f"{body} = {code.constant('kind', kind)}({text})")
        if flexible:
            self._tags(body, [field for field in present if field.tag is not None], kind)
        return body

    def _tags(self, body: str, fields: list[Field], kind: Kind) -> None:
        readers = {}
        for field in fields:
            member = _member(kind, field)
            if kind is None or member is not None:
                name = field.name if member is None else member.name
                readers[field.tag] = name, self._tagged(field, kind)
        code, tags, found = (
            self._code,
            self._code.constant("tags", readers),
            self._code.local("tags"),
        )
        code.add("if data[at]:", f"    {found}, at = tags(data, at, {tags})")
        if kind is None:
            code.add(f"    {body}.update({found})")
        else:
            code.add(f"    for name, value in {found}.items():")
            code.add(f"        setattr({body}, name, value)")
        code.add("else:", "    at += 1")

    def _tagged(self, field: Field, kind: Kind) -> Read:
        """Generate the function that reads a tagged field, always in compact form."""
        reader = _Reader(f"{self._title} {field.name}", self._version)
        return reader.finish(reader.field(field, True, kind))

    def _run(self, fields: list[Field], flexible: bool, kind: Kind) -> list[tuple[Field, str]]:
        """Generate code that reads adjacent fixed-size fields, or another field."""
        if fields[0].is_array or fields[0].type not in FORMATS:
            return [(fields[0], self.field(fields[0], flexible, kind))]
        names = [self._code.local("value") for _ in fields]
        form = _form_of(fields)
        unpack = self._code.constant("unpack", form.unpack_from)
        text = ", ".join(field.name for field in fields)
        self._code.add(f"{', '.join(names)}, = {unpack}(data, at)", field=text)
        self._code.add(f"at += {form.size}")
        shown = [_SHOWN.get(field.type, "{}") for field in fields]
        return [
            (field, show.format(name))
            for field, show, name in zip(fields, shown, names, strict=True)
        ]

    def field(self, field: Field, flexible: bool, kind: Kind) -> str:
        """Generate code that reads a field; return the name of its value."""
        flexible = _is_flexible(field, self._version, flexible)
        is_nullable = self._version in field.nullable
        value = self._code.local("value")
        member = _member(kind, field)
        inner = _inner_kind(member)
        is_raw = member is not None and bytes in _types_in(member.hint)

        def read_struct() -> None:
            self._code.add(f"{value} = {self.struct(field.fields, flexible, inner)}")

        def read() -> None:
            if field.is_array:
                self._array(value, field, flexible, is_nullable, inner)
            elif field.type in FORMATS:
                self._code.add(f"{value} = {self._run([field], flexible, kind)[0][1]}")
            elif field.type != "struct":
                self._sized(value, field.type, flexible, is_nullable, is_raw)
            elif is_nullable:
                self._code.add(f"{value} = None", "at += 1")
                self._code.block("if 0 < data[at - 1] < 128:", read_struct)
            else:
                read_struct()

        self._code.about(field.name, read)
        return value

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

    def _sized(
        self, value: str, kind: str, flexible: bool, is_nullable: bool, is_raw: bool
    ) -> None:
        code = self._code
        size = code.local("size")
        is_string = kind == "string"
        most = STRING_BYTES_MAX if is_string else None
        self._length(size, ">h" if is_string else ">i", flexible, is_nullable, most)
        shown = held = f"data[at : at + {size}]"
        if is_string:
            shown = f"str({held}, 'utf-8', 'replace')"
        elif kind == "bytes" and not is_raw:
            shown = f"base64({held})"
        if is_nullable:
            code.add(f"if {size} < 0:", f"    {value} = None", "else:")
            code.add(f"    {value} = {shown}", f"    at += {size}")
        else:
            code.add(f"{value} = {shown}", f"at += {size}")
        if is_string:
            code.add(f"if {size} > {CHECKED_FROM_BYTES}:", f"    check_text({value}, at)")

    def _array(
        self, value: str, field: Field, flexible: bool, is_nullable: bool, inner: Kind
    ) -> None:
        code = self._code
        count = code.local("count")
        self._length(count, ">i", flexible, is_nullable)

        def elements() -> None:
            code.add(f"{value} = []")
            code.block(f"for _ in range({count}):", lambda: code.add(f"{value}.append({one()})"))

        def one() -> str:
            if field.type == "struct":
                return self.struct(field.fields, flexible, inner)
            if field.type in FORMATS:
                return self._run([field._replace(is_array=False)], flexible, None)[0][1]
            element = code.local("element")
            self._sized(element, field.type, flexible, False, False)
            return element

        if is_nullable:
            code.add(f"{value} = None")
            code.block(f"if {count} >= 0:", elements)
        else:
            elements()


def _too_large(size: int) -> NotEncodableError:
    return NotEncodableError(f"a string of {size} bytes; {STRING_BYTES_MAX} at most")


def _bytes(value: str | bytes) -> bytes:
    """Return bytes, decoded from base64 if the body has a string."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise NotEncodableError(f"{value!r:.50} is not base64") from None


def _number(value: float | str) -> float:
    return DOUBLES[value] if isinstance(value, str) else value


def _null() -> NotEncodableError:
    return NotEncodableError("null, which this version does not have here")


class _Tagged(NamedTuple):
    """A tagged field; `name` is an attribute of a struct, or a key of a dictionary."""

    tag: int
    name: str
    default: Any
    write: Write


def _write_tags(out: bytearray, body: Any, tagged: list[_Tagged]) -> None:
    """Append the tagged fields of a body, except those with their default."""
    sent, is_document = [], isinstance(body, dict)
    for each in tagged:
        value = body.get(each.name, UNSET) if is_document else getattr(body, each.name)
        if value is not UNSET and value != each.default:
            sent.append((each, value))
    write_uvarint(out, len(sent))
    for (tag, _, _, write), value in sent:
        content = bytearray()
        write(content, value)
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content


_WRITER_NAMES = {
    "UNSET": UNSET,
    "too_large": _too_large,
    "bytes_of": _bytes,
    "double": _number,
    "null": _null,
    "tags": _write_tags,
    "uuid_bytes": uuid_bytes,
    "write_uvarint": write_uvarint,
}
_HELD = {"uuid": "uuid_bytes({})", "float64": "double({})"}
"""Conversions of fixed-size values."""

_REFUSED = (TypeError, AttributeError, KeyError, struct.error)


class _Writer:
    """Generates a writer: `out` is the target, `value` the body."""

    def __init__(self, title: str, version: int) -> None:
        self._title = title
        self._version = version
        self._code = _Code(title, "def made(out, value):", _WRITER_NAMES)

    def finish(self) -> Write:
        """Compile the function; its errors name the field."""
        code = self._code
        code.add("return")

        def refused(error: Exception) -> NotEncodableError:
            text = str(error) if isinstance(error, NotEncodableError) else repr(error)
            return NotEncodableError(f"{code.field_of(error)}: {text}")

        caught = code.constant("caught", (NotEncodableError, *_REFUSED))
        raised = f"{code.constant('refused', refused)}(error)"
        return code.made([f"    except {caught} as error:", f"        raise {raised} from None"])

    def struct(self, body: str, fields: Sequence[Field], flexible: bool, kind: Kind) -> None:
        """Generate code that writes a struct, named `body`."""
        code = self._code
        present = [field for field in fields if self._version in field.versions]
        get = ""
        if kind is None:
            get = code.local("get")
            code.add(f"{get} = {body}.get")
        for run in _runs([field for field in present if field.tag is None]):
            values = [self._value(body, get, field, kind) for field in run]
            if run[0].is_array or run[0].type not in FORMATS:
                value = code.local("value")
                code.add(f"{value} = {values[0]}")
                self.field(value, run[0], flexible, kind)
            else:
                self._numbers(run, values)
        if flexible:
            self._tags(body, [field for field in present if field.tag is not None], kind)

    def _tags(self, body: str, fields: list[Field], kind: Kind) -> None:
        code = self._code
        fields = [each for each in fields if kind is None or self._has(kind, each) is not None]
        tagged = sorted((self._tagged(each, kind) for each in fields), key=itemgetter(0))
        if not tagged:
            code.add("out.append(0)")
            return
        is_fixed = fields[0].type in FORMATS and not fields[0].is_array
        if kind is not None and len(fields) == 1 and is_fixed:
            self._only_tag(f"{body}.{tagged[0].name}", fields[0], tagged[0])
            return
        if kind is None:
            names = code.constant("names", frozenset(each.name for each in tagged))
            is_usual = f"{names}.isdisjoint({body})"
        else:
            usual = ((each.name, _members(kind)[each.name].default) for each in tagged)
            is_usual = " and ".join(
                f"{body}.{name} is {code.constant('default', default)}" for name, default in usual
            )
        code.add(f"if {is_usual}:", "    out.append(0)", "else:")
        code.add(f"    tags(out, {body}, {code.constant('tagged', tagged)})")

    def _only_tag(self, value: str, field: Field, tagged: _Tagged) -> None:
        """Generate code that writes a struct's only tagged field, of a fixed size."""
        code, default = self._code, self._code.constant("default", tagged.default)
        head = bytes((1, tagged.tag, _form_of([field]).size))

        def write() -> None:
            code.add(f"out += {head!r}")
            self._numbers([field], [value])

        code.add(f"if {value} == {default} or {value} is UNSET:", "    out.append(0)")
        code.block("else:", write)

    def _has(self, kind: Kind, field: Field) -> _Member | None:
        """Return a struct's field if its annotation includes the version."""
        member = _member(kind, field)
        if member is None or member.versions is None:
            return member
        return member if member.versions.first <= self._version <= member.versions.last else None

    def _value(self, body: str, get: str, field: Field, kind: Kind) -> str:
        """Return an expression for a field's value, or for its default."""
        default = self._code.constant("default", self._default(field))
        if kind is None:
            return f"{get}({field.name!r}, {default})"
        member = self._has(kind, field)
        if member is None:
            return default
        value = f"{body}.{member.name}"
        if msgspec.UnsetType in _types_in(member.hint):
            return f"({default} if {value} is UNSET else {value})"
        if member.default is None and self._version not in field.nullable:
            return f"({default} if {value} is None else {value})"
        return value

    def _default(self, field: Field) -> Any:
        if field.default is None and self._version not in field.nullable:
            return [] if field.is_array else ""
        return field.default

    def _tagged(self, field: Field, kind: Kind) -> _Tagged:
        """Return a tagged field with its writer, always in compact form."""
        assert field.tag is not None
        member, default, name = _member(kind, field), self._default(field), field.name
        if member is not None:
            name = member.name
            if member.default is not UNSET:
                default = member.default
            elif field.type == "struct" and not field.is_array:
                default = UNSET
        writer = _Writer(f"{self._title} {field.name}", self._version)
        writer.field("value", field, True, kind)
        return _Tagged(field.tag, name, default, writer.finish())

    def _numbers(self, fields: list[Field], values: list[str]) -> None:
        """Generate code that writes adjacent fixed-size fields."""
        pack = self._code.constant("pack", _form_of(fields).pack)
        held = [
            _HELD.get(field.type, "{}").format(value)
            for field, value in zip(fields, values, strict=True)
        ]
        text = ", ".join(field.name for field in fields)
        self._code.add(f"out += {pack}({', '.join(held)})", field=text)

    def field(self, value: str, field: Field, flexible: bool, kind: Kind) -> None:
        """Generate code that writes a field, whose value is named `value`."""
        flexible = _is_flexible(field, self._version, flexible)
        code, inner = self._code, _inner_kind(self._has(kind, field))

        def write() -> None:
            if field.is_array:
                self._array(value, field, flexible, inner)
            elif field.type in FORMATS:
                self._numbers([field], [value])
            elif field.type != "struct":
                self._sized(value, field.type, flexible)
            else:
                if self._version in field.nullable:
                    code.add("out.append(1)")
                self.struct(value, field.fields, flexible, inner)

        def write_null_or() -> None:
            is_sized = field.is_array or field.type not in (*FORMATS, "struct")
            if self._version in field.nullable:
                null = "out.append(255)" if field.tag is None else "out.append(0)"
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
        code = self._code
        data, size = code.local("data"), code.local("size")
        encoded = f"{value}.encode()" if kind == "string" else f"bytes_of({value})"
        code.add(f"{data} = {encoded}", f"{size} = len({data})")
        if kind == "string":
            code.add(f"if {size} > {STRING_BYTES_MAX}:", f"    raise too_large({size})")
        self._length(size, ">h" if kind == "string" else ">i", flexible)
        code.add(f"out += {data}")

    def _once(self, element: str, field: Field, write: Callable[[], None]) -> None:
        """Generate code that writes a `CachedBody`, whose bytes it keeps."""
        code = self._code
        begin, kept = code.local("begin"), code.local("kept")
        key = f"{self._title}: {field.name}"
        code.add(f"{kept} = {element}.__dict__.get({key!r})", f"if {kept} is not None:")
        code.add(f"    out += {kept}", "    continue", f"{begin} = len(out)")
        write()
        code.add(f"{element}.__dict__[{key!r}] = bytes(out[{begin}:])")

    def _array(self, value: str, field: Field, flexible: bool, inner: Kind) -> None:
        code = self._code
        count, element = code.local("count"), code.local("element")
        code.add(f"{count} = len({value})")
        self._length(count, ">i", flexible)

        def struct_of() -> None:
            self.struct(element, field.fields, flexible, inner)

        def one() -> None:
            if inner is not None and issubclass(inner, CachedBody):
                self._once(element, field, struct_of)
            elif field.type == "struct":
                struct_of()
            elif field.type in FORMATS:
                self._numbers([field], [element])
            else:
                self._sized(element, field.type, flexible)

        code.block(f"for {element} in {value}:", one)
