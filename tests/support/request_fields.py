"""What clients ask a broker, field by field, and how two clients differ in it.

Fields are by their paths in a request; `[]` is any item of a list. What no two runs have in common
(ids that were drawn, offsets, checksums) is `…`, but where it is not set.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

Fields = dict[str, dict[str, set[str]]]
"""Client and API to fields and the values that were sent, as JSON."""

ANYTHING = "…"
VERSION = "(version)"
UNSET: dict[str, tuple[object, ...]] = {
    "groupId": (),
    "coordinatorKeys[]": (),
    "memberId": (None, ""),
    "transactionalId": (None,),
    "v3AndBelowTransactionalId": (),
    "producerId": (-1,),
    "v3AndBelowProducerId": (-1,),
    "sessionId": (0,),
    "sessionEpoch": (0, -1),
    "fetchOffset": (),
    "committedOffset": (-1,),
    "crc": (),
    "topicId": (),
}
"""Fields that differ in each run, and their placeholders."""

_DRAWN = re.compile(r"[\w-]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, held in value.items():
            yield from _leaves(held, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        if not value:
            yield path, []
        for held in value:
            yield from _leaves(held, f"{path}[]")
    else:
        yield path, value


def _shown(path: str, value: object) -> str:
    name = path.rpartition(".")[2]
    if name in UNSET and value not in UNSET[name]:
        return ANYTHING
    return json.dumps(_DRAWN.sub(ANYTHING, value) if isinstance(value, str) else value)


def fields(documents: Iterable[dict[str, Any]]) -> Fields:
    result: Fields = defaultdict(lambda: defaultdict(set))
    for document in documents:
        header = document["requestHeader"]
        requested = result[f"{header['clientId']} {header['requestApiKeyName']}"]
        requested[VERSION].add(str(header["requestApiVersion"]))
        for path, value in _leaves(document["request"], ""):
            requested[path].add(_shown(path, value))
    return result


def _rendered(values: Iterable[str]) -> str:
    return " ".join(sorted(values)) or "-"


def differences(theirs: Fields, ours: Fields) -> list[str]:
    """A line for each field that others send than we do: its place, their values, ours."""
    lines = []
    for requested in sorted(theirs.keys() | ours.keys()):
        if requested not in theirs or requested not in ours:
            lines.append(f"{requested}: {'theirs' if requested in theirs else 'ours'} alone")
            continue
        for path in sorted(theirs[requested].keys() | ours[requested].keys()):
            of_theirs, of_ours = (
                theirs[requested].get(path, set()),
                ours[requested].get(path, set()),
            )
            if of_theirs != of_ours:
                lines.append(f"{requested} {path}: {_rendered(of_theirs)} | {_rendered(of_ours)}")
    return lines
