"""Generate `schemas.json` from the message schemas in a kafka-clients jar.

    python -m brokertwin.gateway.protocol.generate kafka-clients-4.3.1.jar 4.3.1 schemas.json

Only names, types, versions, tags and defaults are kept, of headers and of APIs of a broker's
listener. The result is in the package, so that an installed wheel needs no jar.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

FOLDER = "common/message/"
KEPT = ("type", "versions", "nullableVersions", "tag", "default", "flexibleVersions")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def main(jar: str, release: str, target: str) -> None:
    """Read a jar and write the schemas, one message on each line."""
    messages = _messages(Path(jar))
    lines = [
        f"{json.dumps(name)}: {json.dumps(message, separators=(',', ':'))}"
        for name, message in sorted(messages.items())
    ]
    text = f'{{"release": "{release}", "messages": {{\n' + ",\n".join(lines) + "\n}}\n"
    Path(target).write_text(text, encoding="utf-8")


def _messages(jar: Path) -> dict[str, Any]:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.match(FOLDER + r".*\.json$", name)]
        texts = [archive.read(name).decode("utf-8") for name in names]
    found = [json.loads(COMMENT.sub("", text)) for text in texts]
    spoken = [each for each in found if each.get("validVersions", "none") != "none"]
    keys = {each["apiKey"] for each in spoken if "broker" in each.get("listeners", ())}
    return {
        each["name"]: _message(each)
        for each in spoken
        if each["type"] == "header" or each.get("apiKey") in keys
    }


def _message(found: dict[str, Any]) -> dict[str, Any]:
    structs = {each["name"]: each["fields"] for each in found.get("commonStructs", ())}
    message = {name: found[name] for name in ("apiKey",) if name in found}
    message["versions"] = found["validVersions"]
    message["flexible"] = found["flexibleVersions"]
    message["fields"] = [_field(field, structs) for field in found["fields"]]
    return message


def _field(found: dict[str, Any], structs: dict[str, Any]) -> dict[str, Any]:
    """Convert a field; a struct shared by several fields is repeated in each."""
    field = {"name": found["name"][0].lower() + found["name"][1:]}
    field |= {name: found[name] for name in KEPT if name in found}
    if found.get("taggedVersions", found["versions"]) != found["versions"]:
        raise ValueError(f"{found['name']} is tagged in some of its versions only")
    parts = found.get("fields") or structs.get(found["type"].removeprefix("[]"))
    if parts:
        field["fields"] = [_field(part, structs) for part in parts]
    return field


if __name__ == "__main__":
    main(*sys.argv[1:])
