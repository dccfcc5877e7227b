"""Reads Kafka's message schemas from its jars into `brokertwin/protocol/schemas.json`.

    python -m tests.wire.schemas JARS 4.3.1
    python -m tests.wire.schemas JARS 4.4.0

Only facts are kept: names, types, versions, tags, defaults. The file is in the package because an
installed wheel has no jars. `messages` are the headers and the APIs of a broker's listener,
`controller` the APIs of a controller's alone that the model has, `records` the rows of
coordinators and the protocols of consumer groups.

A later release is `schemas_4_4.json`: its messages that have more versions than those of 4.3.1,
with the names of 4.3.1. Its rows are the same.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from brokertwin.kafka_io.jars import KAFKA_VERSION

FOLDER = Path(__file__).parents[2] / "brokertwin" / "protocol"
TARGET = FOLDER / "schemas.json"
FILE = re.compile(r"(common/)?message/\w+\.json$")
KEPT = ("type", "versions", "nullableVersions", "tag", "default", "flexibleVersions")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
OF_CONTROLLERS = frozenset({56, 62, 63, 67, 73})
"""AlterPartition, registration and heartbeat, AllocateProducerIds, AssignReplicasToDirs."""
OF_CONSUMERS = "ConsumerProtocol"
RENAMED = {
    "TxnOffsetCommitRequest.generationIdOrMemberEpoch": "generationId",
    "StreamsGroupHeartbeatResponse.acceptableRecoveryLagLegacy": "acceptableRecoveryLag",
}
"""Fields that 4.4 has renamed, and their names in 4.3.1."""


def text_of(jars: Iterable[Path], release: str) -> str:
    return _text(_parts([schema for jar in jars for schema in _schemas(jar)]), release)


def later_text_of(jars: Iterable[Path], release: str) -> str:
    """The messages of a later release that have other versions than in `schemas.json`."""
    messages = json.loads(TARGET.read_text(encoding="utf-8"))["messages"]
    found = _parts([schema for jar in jars for schema in _schemas(jar)])["messages"]
    newer = {
        name: message
        for name, message in found.items()
        if message["versions"] != messages.get(name, {}).get("versions") and "apiKey" in message
    }
    for path, name in RENAMED.items():
        message, _, new = path.partition(".")
        for field in newer[message]["fields"]:
            field["name"] = name if field["name"] == new else field["name"]
    return _text({"messages": newer}, release)


def _text(found: dict[str, dict[str, Any]], release: str) -> str:
    parts = []
    for part, messages in found.items():
        lines = [
            f"{json.dumps(name)}: {json.dumps(message, separators=(',', ':'))}"
            for name, message in sorted(messages.items())
        ]
        parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return f'{{"release": "{release}", ' + ",\n".join(parts) + "}\n"


def _schemas(jar: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if FILE.match(name)]
    documents = [json.loads(COMMENT.sub("", text)) for text in texts]
    return [each for each in documents if each.get("validVersions", "none") != "none"]


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
    jars = sorted(Path(folder).glob("kafka-*.jar"))
    if release == KAFKA_VERSION:
        TARGET.write_text(text_of(jars, release), encoding="utf-8")
    else:
        later = FOLDER / f"schemas_{'_'.join(release.split('.')[:2])}.json"
        later.write_text(later_text_of(jars, release), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
