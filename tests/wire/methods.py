"""The fields of a row's struct in Python, with the functions that read and write them."""

import re
from typing import Any

COLUMNS = 100
VERSION_MAX = 2**15 - 1
TYPES = {
    "bool": ("bool", "False"),
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "uuid": ("Uuid", "ZERO_UUID"),
}
"""Kafka's types to those of a row and their defaults; others are integers."""


CODES = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
"""Integers, as `struct` calls them."""
SIZES = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "uuid": 16}

Fields = list[dict[str, Any]]


def snake(name: str) -> str:
    """`topicId` as `topic_id`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def wrapped(line: str) -> str:
    """Return a line; a long one is split around the content of its first parentheses."""
    if len(line) <= COLUMNS + 1 or "(" not in line:
        return line
    space = " " * (len(line) - len(line.lstrip()))
    before, sign, after = line.partition(" = field")
    head, _, rest = after.partition("(") if sign else line.partition("(")
    head = f"{before}{sign}{head}" if sign else head
    within, _, tail = rest.rpartition(")")
    return f"{head}(\n{space}    {within}\n{space}){tail}"


def of(fields: Fields, names: dict[str, str], among: tuple[int, int], has_tags: bool) -> str:
    """The fields and the functions; `names` are the structs of parts by the fields' names."""
    text = "".join(f"    {_declared(field, names)}\n" for field in fields)
    read, write = _read(fields, names, among, has_tags), _write(fields, among, has_tags)
    return f"{text}\n{read}\n{write}"


def _kind(field: dict[str, Any], names: dict[str, str]) -> tuple[str, str]:
    if "fields" in field:
        kind = names[field["name"]]
        return kind, f"field(default_factory={kind})"
    return TYPES.get(field["type"].removeprefix("[]"), ("int", "0"))


def _default(field: dict[str, Any], names: dict[str, str]) -> str:
    given = field.get("default")
    if given == "null":
        return "None"
    if field["type"].startswith("[]"):
        return "[]"
    return str(given) if given is not None else _kind(field, names)[1]


def _declared(field: dict[str, Any], names: dict[str, str]) -> str:
    kind = _kind(field, names)[0]
    kind = f"list[{kind}]" if field["type"].startswith("[]") else kind
    kind = f"{kind} | None" if "nullableVersions" in field else kind
    return f"{snake(field['name'])}: {kind} = {_default(field, names)}"


def _method(field: dict[str, Any]) -> str:
    """The method of a reader for a value, or for an item of an array."""
    null = "nullable_" if "nullableVersions" in field and not field["type"].startswith("[]") else ""
    kind = field["type"].removeprefix("[]")
    return null + ("bytes_" if kind == "bytes" and not null else kind)


def _getting(field: dict[str, Any], names: dict[str, str], reader: str) -> str:
    is_null = "nullableVersions" in field
    if "fields" in field:
        one = f"{names[field['name']]}.read({reader}, version)"
        item = f"lambda: {one}"
        if not field["type"].startswith("[]"):
            return f"{reader}.nullable({item})" if is_null else one
    else:
        item = f"{reader}.{_method(field)}"
        if not field["type"].startswith("[]"):
            return f"{item}()"
    return f"{reader}.{'nullable_array' if is_null else 'array'}({item})"


def _putting(field: dict[str, Any], out: str, flexible: str) -> list[str]:
    """The lines that append a field to the bytes `out`."""
    value = f"self.{snake(field['name'])}"
    kind, is_array = field["type"].removeprefix("[]"), field["type"].startswith("[]")
    if "fields" in field:
        return _putting_structs(field, value, out, flexible)
    if is_array:
        if kind == "string":
            return [f"put_strings({out}, {value}, {flexible})"]
        return [f'put_numbers({out}, "{CODES[kind]}", {value}, {flexible})']
    if kind in {"string", "bytes"}:
        return [f"put_{kind}({out}, {value}, {flexible})"]
    return [f"{out} += {_fixed(field)}"]


def _fixed(field: dict[str, Any]) -> str:
    """The bytes of a field that has one size; empty for other fields."""
    value, kind = f"self.{snake(field['name'])}", field["type"]
    if kind == "uuid":
        return f"uuid_bytes({value})"
    return f"{kind.upper()}({value})" if kind in CODES else ""


def _putting_structs(field: dict[str, Any], value: str, out: str, flexible: str) -> list[str]:
    is_null = "nullableVersions" in field
    if field["type"].startswith("[]"):
        return [f"put_structs({out}, {value}, version, {flexible})"]
    write = f"{value}.write({out}, version, {flexible})"
    if not is_null:
        return [write]
    null = "0" if "tag" in field else "-1"
    return [
        f"{out} += INT8({null} if {value} is None else 1)",
        f"if {value} is not None:",
        f"    {write}",
    ]


def _condition(field: dict[str, Any], among: tuple[int, int]) -> str:
    """The versions that have the field; empty if all have it."""
    text = field["versions"]
    first, _, last = text.rstrip("+").partition("-")
    least = int(first)
    most = VERSION_MAX if text.endswith("+") else int(last or first)
    if least > among[0] and most < among[1]:
        return f"version == {least}" if least == most else f"{least} <= version <= {most}"
    if least > among[0]:
        return f"version >= {least}"
    return f"version <= {most}" if most < among[1] else ""


def _under(condition: str, *lines: str) -> str:
    if not condition:
        return "".join(f"        {line}\n" for line in lines)
    return f"        if {condition}:\n" + "".join(f"            {line}\n" for line in lines)


def _read(fields: Fields, names: dict[str, str], among: tuple[int, int], has_tags: bool) -> str:
    text = "    @classmethod\n    def read(cls, reader: Reader, version: int) -> Self:\n"
    text += "        found = cls()\n"
    for field in fields:
        if "tag" not in field:
            value = f"found.{snake(field['name'])} = {_getting(field, names, 'reader')}"
            text += _under(_condition(field, among), value)
    tagged = [field for field in fields if "tag" in field]
    if not tagged:
        return text + "        reader.tags()\n" * has_tags + "        return found\n"
    text += "        tags = reader.tags()\n"
    for field in tagged:
        get = _getting(field, names, "tag")
        text += _under(
            f"{field['tag']} in tags",
            f"tag = Reader(tags[{field['tag']}], is_flexible=True)",
            f"found.{snake(field['name'])} = {get}",
        )
    return text + "        return found\n"


def _is_default(field: dict[str, Any]) -> str:
    """Whether a tagged field has its default; `T` is its type if that is a struct."""
    value, given = f"self.{snake(field['name'])}", field.get("default")
    if given == "null":
        return f"{value} is not None"
    if field["type"].startswith("[]"):
        return f"{value} != []"
    if "fields" in field:
        return f"{value} != {field['type']}()"
    return f"{value} != {given if given is not None else TYPES.get(field['type'], ('', '0'))[1]}"


def _only_tag(field: dict[str, Any], fixed: str) -> str:
    """The lines for the only tagged field of a struct, which has one size."""
    head = bytes((1, field["tag"], SIZES[field["type"]]))
    return _under(
        "is_flexible",
        f"if {_is_default(field)}:",
        f"    out += {_bytes(head)}",
        f"    out += {fixed}",
        "else:",
        "    out.append(0)",
    )


def _bytes(data: bytes) -> str:
    return 'b"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


def _write(fields: Fields, among: tuple[int, int], has_tags: bool) -> str:
    text = "    def write(self, out: bytearray, version: int, is_flexible: bool) -> None:\n"
    for field in fields:
        if "tag" not in field:
            text += _under(_condition(field, among), *_putting(field, "out", "is_flexible"))
    tagged = sorted((f for f in fields if "tag" in f), key=lambda field: int(field["tag"]))
    if len(tagged) == 1 and (fixed := _fixed(tagged[0])):
        return text + _only_tag(tagged[0], fixed)
    if tagged:
        text += "        tags: dict[int, bytes | bytearray] = {}\n"
    for field in tagged:
        if fixed := _fixed(field):
            text += _under(_is_default(field), f"tags[{field['tag']}] = {fixed}")
        else:
            name = f"tag{field['tag']}"
            lines = _putting(field, name, "True")
            text += _under(
                _is_default(field), f"tags[{field['tag']}] = {name} = bytearray()", *lines
            )
    if has_tags:
        tags = "put_tags(out, tags)" if tagged else "out.append(0)"
        text += f"        if is_flexible:\n            {tags}\n"
    return text
