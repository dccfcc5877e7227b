"""Reads Kafka's message schemas from its jars into `brokertwin/protocol/schemas.json`.

    python -m tests.wire.schemas JARS 4.3.1

Only facts are kept: names, types, versions, tags, defaults. The file is in the package because an
installed wheel has no jars. `messages` are the headers and the APIs of a broker's listener,
`controller` the APIs of a controller's alone that the model has, `records` the rows of
coordinators and the protocols of consumer groups.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "brokertwin" / "protocol" / "schemas.json"
FILE = re.compile(r"(common/)?message/\w+\.json$")
KEPT = ("type", "versions", "nullableVersions", "tag", "default", "flexibleVersions")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
OF_CONTROLLERS = frozenset({56, 62, 63, 67, 73})
"""AlterPartition, registration and heartbeat, AllocateProducerIds, AssignReplicasToDirs."""
OF_CONSUMERS = "ConsumerProtocol"


def text_of(jars: Iterable[Path], release: str) -> str:
    """The schemas as a JSON document with a message on each line."""
    found = [schema for jar in jars for schema in _schemas(jar)]
    parts = []
    for part, messages in _parts(found).items():
        lines = [
            f"{json.dumps(name)}: {json.dumps(message, separators=(',', ':'))}"
            for name, message in sorted(messages.items())
        ]
        parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return f'{{"release": "{release}", ' + ",\n".join(parts) + "}\n"


def _schemas(jar: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if FILE.match(name)]
    found = [json.loads(COMMENT.sub("", text)) for text in texts]
    return [each for each in found if each.get("validVersions", "none") != "none"]


def _parts(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    keys = {each["apiKey"] for each in found if "broker" in each.get("listeners", ())}
    parts: dict[str, dict[str, Any]] = {"messages": {}, "controller": {}, "records": {}}
    for each in found:
        part = _part_of(each, keys)
        if part is not None:
            parts[part][each["name"]] = _message(each)
    return parts


def _part_of(found: dict[str, Any], keys: set[int]) -> str | None:
    if found["type"].startswith("coordinator") or found["name"].startswith(OF_CONSUMERS):
        return "records"
    if found["type"] == "header":
        return "messages"
    if found["type"] not in {"request", "response"}:
        return None
    if found["apiKey"] in OF_CONTROLLERS - keys:
        return "controller"
    return "messages" if found["apiKey"] in keys else None


def _message(found: dict[str, Any]) -> dict[str, Any]:
    structs = {each["name"]: each["fields"] for each in found.get("commonStructs", ())}
    message = {name: found[name] for name in ("apiKey",) if name in found}
    message["versions"] = found["validVersions"]
    message["flexible"] = found["flexibleVersions"]
    message["fields"] = [_field(field, structs) for field in found["fields"]]
    return message


def _field(found: dict[str, Any], structs: dict[str, Any]) -> dict[str, Any]:
    """A field; a struct that several fields share is written out in each of them."""
    field = {"name": found["name"][0].lower() + found["name"][1:]}
    field |= {name: found[name] for name in KEPT if name in found}
    versions = field.setdefault("versions", found.get("taggedVersions"))
    if found.get("taggedVersions", versions) != versions:
        raise ValueError(f"{found['name']} is tagged in some of its versions only")
    parts = found.get("fields") or structs.get(found["type"].removeprefix("[]"))
    if parts:
        field["fields"] = [_field(part, structs) for part in parts]
    return field


def main(folder: str, release: str) -> None:
    """Read the jars of a folder and write the schemas."""
    TARGET.write_text(text_of(sorted(Path(folder).glob("kafka-*.jar")), release), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
