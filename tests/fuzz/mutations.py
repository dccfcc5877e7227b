"""Changes to bytes, and to what JSON says, drawn from a seed."""

import json
import random
from copy import deepcopy
from typing import Any

INTERESTING = (
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00"),
    *(b"\xff\xff", b"\x00", b"\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
    *(b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x00\x00\x80"),
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"-1", b"1e999", b"9" * 40, b"true"),
    *(
        b"\\u",
        b"\\",
        b"\n",
        b"\\ud800",
        b"\xed\xa0\x80",
        b"=",
        b"#",
        b"NaN",
        b"18446744073709551616",
    ),
)
PIECE_MAX = 64
CHANGES_MAX = 6


def changed(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """Some bytes with a few changes; `other` lends pieces."""
    found = bytearray(data)
    for _ in range(draw.randint(1, CHANGES_MAX)):
        at = draw.randrange(len(found) + 1)
        size = draw.randint(1, PIECE_MAX) if draw.random() < 0.5 else draw.randint(1, 4)
        match draw.randrange(8):
            case 0 if at < len(found):
                found[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(found):
                found[at] = draw.randrange(256)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = draw.choice(INTERESTING)
            case 4:
                piece = draw.choice(INTERESTING)
                found[at : at + len(piece)] = piece
            case 5:
                start = draw.randrange(len(other) + 1)
                found[at:at] = other[start : start + size]
            case 6:
                start = draw.randrange(len(found) + 1)
                found[at : at + size] = found[start : start + size]
            case 7 if draw.random() < 0.1:
                del found[at:]
    return bytes(found)


VALUES = (
    *(None, True, False, 0, 1, -1, 2**15, 2**31, -(2**31) - 1, 2**63, -(2**63), 1e308, 0.5),
    *("", "x", "AAAA", "A" * 22, "A" * 21, "\ud800", "\0", "[", "-1", [], {}, [None], [[]], [{}]),
)
SHARE_OF_JSON = 0.7
"""So many documents get other values; the rest other bytes, which mostly are no JSON any more."""


def changed_document(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """A JSON document with a few other values, some of them another document's."""
    if draw.random() > SHARE_OF_JSON:
        return changed(data, other, draw)
    document, lender = json.loads(data), list(_places(json.loads(other)))
    for _ in range(draw.randint(1, CHANGES_MAX)):
        holder, key = draw.choice(list(_places(document)))
        match draw.randrange(5):
            case 0:
                there, its = draw.choice(lender)
                holder[key] = deepcopy(there[its])
            case 1 if isinstance(holder, list):
                holder.append(deepcopy(holder[key]))
            case 2:
                del holder[key]
                if not document:
                    break
            case _:
                holder[key] = deepcopy(draw.choice(VALUES))
        if not any(True for _ in _places(document)):
            break
    return json.dumps(document, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def changed_shape(line: bytes, draw: random.Random) -> bytes:
    """A line of a request log in which a field of a body is missing or has another value."""
    begin, end = line.find(b"{"), line.rfind(b"}") + 1
    document = json.loads(line[begin:end])
    places = [
        place
        for body in ("request", "response")
        if isinstance(document[body], dict)
        for place in _places(document[body])
    ]
    if places:
        holder, key = draw.choice(places)
        if draw.random() < 0.5:
            del holder[key]
        else:
            holder[key] = deepcopy(draw.choice(VALUES))
    shown = json.dumps(document, separators=(",", ":"))
    return line[:begin] + shown.encode() + line[end:]


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
