"""Fields that other Kafka releases name differently, from the message schemas in their jars.

    python -m tests.support.message_schemas kafka-clients-4.3.1.jar kafka-clients-2.8.2.jar …

The first jar has the names to compare with. The rows are written to `RENAMED`.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.sources import ROOT

RENAMED = ROOT / "tests" / "recordings" / "formats" / "renamed_fields.json"
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_REMARK = re.compile(r"(?<=[,\]}])\s*//.*$", re.MULTILINE)
_CLASS = re.compile(r"[A-Z]\w*")

Message = dict[str, Any]
Messages = dict[tuple[int, str], Message]
Place = tuple[str, int]
"""The tag of a tagged field, or the position of another field."""


class Renamed(NamedTuple):
    """A field that has another name in 4.3.1.

    Attributes:
        kind: `request` or `response`.
        versions: the first and the last version with the field.
        old: names that lead to the field in that release.
        new: the same in 4.3.1.
    """

    release: str
    key: int
    kind: str
    versions: tuple[int, int]
    old: list[str]
    new: list[str]


def messages(jar: Path) -> Messages:
    """The schemas of requests and responses in a jar."""
    result = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = _REMARK.sub("", _COMMENT.sub("", archive.read(name).decode()))
                message, _ = json.JSONDecoder().raw_decode(text.strip())
                if "apiKey" in message:
                    result[message["apiKey"], message["type"]] = message
    return result


def _range(versions: str | None) -> range:
    if versions in (None, "none"):
        return range(0)
    first, dash, last = str(versions).removesuffix("+").partition("-")
    if str(versions).endswith("+"):
        return range(int(first), sys.maxsize)
    return range(int(first), int(last if dash else first) + 1)


def _fields(message: Message, own: Iterable[Message], version: int) -> dict[Place, Message]:
    """The fields of a struct in a version, in the order in which they are written."""
    structs = {each["name"]: each["fields"] for each in message.get("commonStructs", ())}
    fields: dict[Place, Message] = {}
    for field in own:
        if version not in _range(field.get("versions", "0+")):
            continue
        inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"), ())
        is_tagged = version in _range(field.get("taggedVersions"))
        position = sum(kind == "position" for kind, _ in fields)
        place = ("tag", field["tag"]) if is_tagged else ("position", position)
        fields[place] = {**field, "fields": inner, "type": _CLASS.sub("", field["type"])}
    return fields


def _pairs(
    version: int, old: tuple[Message, Iterable[Message]], new: tuple[Message, Iterable[Message]]
) -> Iterator[tuple[list[str], list[str]]]:
    """Paths of fields at the same place whose names, or those around them, differ."""
    fields, others = _fields(*old, version), _fields(*new, version)
    own = {_json_name(field) for field in fields.values()}
    for place, field in fields.items():
        other = others.get(place)
        if other is None or other["type"] != field["type"]:
            continue
        names = _json_name(field), _json_name(other)
        if names[0] != names[1]:
            if names[1] in own:
                continue  # 4.3.1 has dropped a field before it
            yield [names[0]], [names[1]]
        inside = _pairs(version, (old[0], field["fields"]), (new[0], other["fields"]))
        for before, after in inside:
            yield [names[0], *before], [names[1], *after]


def _json_name(field: Message) -> str:
    name = str(field["name"])
    return name[0].lower() + name[1:]


def renamed(release: str, old: Messages, new: Messages) -> Iterator[Renamed]:
    for place, message in sorted(old.items()):
        other = new.get(place)
        if other is None:
            continue
        valid = _range(other["validVersions"])
        renames: dict[str, Renamed] = {}
        for version in (each for each in _range(message["validVersions"]) if each in valid):
            pairs = _pairs(version, (message, message["fields"]), (other, other["fields"]))
            for before, after in pairs:
                name = ".".join(before)
                first = renames[name].versions[0] if name in renames else version
                renames[name] = Renamed(release, *place, (first, version), before, after)
        yield from renames.values()


def main(jars: list[Path]) -> None:
    """Write the renamed fields of all jars, compared with the first."""
    new = messages(jars[0])
    rows = [
        json.dumps(row)
        for jar in jars[1:]
        for row in renamed(jar.stem.removeprefix("kafka-clients-"), messages(jar), new)
    ]
    RENAMED.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
