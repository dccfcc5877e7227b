"""Reads the API versions of Kafka's releases from their jars into `released_apis.json`.

    python -m tests.wire.released_apis 2.8=kafka-clients-2.8.2.jar 3.4=kafka-clients-3.4.1.jar …

Only facts are kept: for each release the first and last stable version of each API that a broker
offers to clients. The jars are `org.apache.kafka:kafka-clients` at Maven Central.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "brokertwin" / "gateway" / "admin" / "released_apis.json"
FILE = re.compile(r"common/message/\w+Request\.json$")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
LISTENERS = {"broker", "zkBroker"}
"""Listeners of a broker, with ZooKeeper or KRaft."""


def apis_of(jar: Path) -> dict[str, list[int]]:
    """Return first and last stable version by API key."""
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if FILE.search(name)]
    decoder = json.JSONDecoder()  # some files have a comment at the end
    schemas = [decoder.raw_decode(COMMENT.sub("", text).strip())[0] for text in texts]
    found = {each["apiKey"]: _versions(each) for each in schemas if _is_offered(each)}
    return {str(key): versions for key, versions in sorted(found.items()) if versions}


def _is_offered(schema: dict[str, Any]) -> bool:
    return bool(LISTENERS & set(schema.get("listeners", LISTENERS)))


def _versions(schema: dict[str, Any]) -> list[int]:
    text = schema["validVersions"]
    if text == "none":
        return []
    first, _, last = text.partition("-")
    stable = int(last or first) - bool(schema.get("latestVersionUnstable"))
    return [int(first), stable] if stable >= int(first) else []


def text_of(jars: dict[str, Path]) -> str:
    lines = [
        f'"{release}": {json.dumps(apis_of(jar), separators=(",", ":"))}'
        for release, jar in jars.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    named = (argument.partition("=") for argument in sys.argv[1:])
    TARGET.write_text(text_of({release: Path(jar) for release, _, jar in named}))
