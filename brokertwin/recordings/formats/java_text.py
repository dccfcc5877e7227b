"""Parses bodies in the form of Kafka's `toString`.

Messages of Kafka 2.8 and later, and of clients: `JoinGroupRequestData(groupId='g', members=[])`.
Structs of Kafka before 2.8: `{group_id=g,members=[]}`; their names are converted.
"""

import re
from typing import Any

from brokertwin.patterns import later

DEPTH_MAX = 30

_OPEN = later(r"(?:[\w.]*\(|\{)")
_KEY = later(r"\s*(\w+)=")
_QUOTED = later(r"'(.*?)'(?=\s*(?:,\s?\w+=|, '|[)\]}]|$))", re.DOTALL)
_BARE = later(r"[^,)\]}\[{(]*(?:\([^()]*\)|\[[^\[\]]*\])?(?:,(?!\s?\w+=)[^,)\]}=]*)*")
_ITEM = later(r"[^,\]]*")
_NUMBER = later(r"-?\d+(?:\.\d+)?")
_WORDS: dict[str, Any] = {"null": None, "None": None, "true": True, "false": False}
_TEXTS = later(
    r"topic$|name$|host$|key$|metadata$|(?:group|member|client|transactional|instance|cluster)Id$"
)
"""Fields that are texts even if they have digits only."""


class UnparsableError(Exception):
    """The text is not a body, or is cut."""


def body_of(text: str, at: int = 0) -> tuple[dict[str, Any], int]:
    """Return the body at an offset, and the offset after it.

    Raises:
        UnparsableError: the text is not a body.
    """
    opening = _OPEN.match(text, at)
    if opening is None:
        raise UnparsableError(text[at : at + 50])
    return _object(text, opening.end(), 0)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    """Parse fields up to the closing bracket."""
    made: dict[str, Any] = {}
    while text[at : at + 1] not in (")", "}"):
        key = _KEY.match(text, at)
        if key is None or depth > DEPTH_MAX:
            raise UnparsableError(text[at : at + 50])
        name = camel(key[1])
        value, at = _value(text, key.end(), depth + 1, name)
        if not key[1].startswith("_"):  # _tagged_fields
            made[name] = value
        if text[at : at + 1] == ",":
            at += 1
    return made, at + 1


def _value(text: str, at: int, depth: int, name: str) -> tuple[Any, int]:
    if text[at : at + 1] == "[":
        return _list(text, at + 1, depth)
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return quoted[1], quoted.end()
    opening = _OPEN.match(text, at)
    if opening is not None:
        return _object(text, opening.end(), depth)
    bare = _BARE.match(text, at)
    if bare is None or bare.end() == len(text):
        raise UnparsableError(text[at : at + 50])
    return _scalar(bare[0], name), bare.end()


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    made: list[Any] = []
    while text[at : at + 1] != "]":
        if at >= len(text) or depth > DEPTH_MAX:
            raise UnparsableError(text[at : at + 50])
        if _OPEN.match(text, at) or text[at] in "['":
            value, at = _value(text, at, depth + 1, "")
        else:
            item = _ITEM.match(text, at)
            value, at = (_scalar(item[0], ""), item.end()) if item else ("", at + 1)
        made.append(value)
        if text[at : at + 1] == ",":
            at += 1 + (text[at + 1 : at + 2] == " ")
    return made, at + 1


def _scalar(text: str, name: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) and not _TEXTS.search(name):
        return float(text) if "." in text else int(text)
    return text


def camel(name: str) -> str:
    """Convert `generation_id` to `generationId`."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
