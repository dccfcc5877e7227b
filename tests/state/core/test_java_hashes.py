"""Hashes and orders compared with Java's, Scala's and Kafka's maps.

`HashOrders.java` puts the same keys into them: random ones, in numbers beyond each resize, some
with equal hashes.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from brokertwin.state.cluster.topics import derive_uuid
from brokertwin.state.core.java_hashes import (
    JavaMap,
    hash_order,
    java_hash,
    partition_hash,
    scala_order,
    timeline_order,
    uuid_hash,
)
from tests.support.java_responses import java_responses, json_from_java

DRIVER = Path(__file__).with_name("HashOrders.java")
MOST = 200
LETTERS = "abcxyzABC019-._ é߿€𝄞😀"
TWINS = ("Aa", "BB", "AaAa", "BBBB")
"""Texts with equal hashes, in pairs. Java would make a tree of eight in one bucket."""


def texts_of(chance: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        is_twin = chance.random() < 0.1
        word = "".join(chance.choices(LETTERS, k=chance.randint(1, 12)))
        found[chance.choice(TWINS) if is_twin else word] = None
    return list(found)


def digest(value: Any) -> str:
    """Short hash of a list, because complete lists would fill a large golden."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def javas_digests(requests: Sequence[str]) -> list[dict[str, str]]:
    """Digests of the content of Java's maps."""
    responses = json_from_java(DRIVER, requests)
    return [{name: digest(value) for name, value in response.items()} for response in responses]


def ours(request: Any) -> Any:
    texts: list[str] = request["texts"]
    every: JavaMap[str, str] = JavaMap(java_hash)
    for each in texts:
        every[each] = each
    kept = set(texts[: request["kept"]])
    shrunk = [each for each in hash_order(texts, len(texts)) if each in kept]
    return {
        "hashes": [java_hash(each) for each in texts],
        "places": [_signed(partition_hash(each, _length(each))) for each in texts],
        "ids": [_signed(uuid_hash(each)) for each in request["ids"]],
        "hashMap": hash_order(texts, len(texts)),
        "shrunk": shrunk,
        "hashSet": list(JavaMap.holding(java_hash, dict.fromkeys(texts))),
        "scala": scala_order(dict.fromkeys(texts), java_hash),
        "timeline": timeline_order(texts, len(texts)),
    }


def _length(text: str) -> int:
    return len(text.encode("utf-16-be")) // 2


def _signed(number: int) -> int:
    return ((number & 0xFFFFFFFF) ^ 1 << 31) - (1 << 31)


def test_known_string_hashes() -> None:
    known = {"": 0, "hello": 99_162_322, "Aa": 2_112, "BB": 2_112, "😀": 1_772_899}
    known["polygenelubricants"] = -(2**31)
    assert {text: java_hash(text) for text in known} == known


@pytest.mark.compares
def test_hashes_and_orders_equal_those_of_java() -> None:
    chance = Random(1)
    requests = []
    for count in (*range(1, MOST), *[chance.randint(1, MOST) for _ in range(100)]):
        texts = texts_of(chance, count)
        ids = [derive_uuid(f"{count}/{each}") for each in texts]
        requests.append({"texts": texts, "ids": ids, "kept": chance.randint(0, count)})
    lines = [json.dumps(each) for each in requests]
    responses = java_responses("core/java_hashes", lines, javas_digests)
    for request, theirs in zip(requests, responses, strict=True):
        mine = ours(request)
        for name, expected in theirs.items():
            assert digest(mine[name]) == expected, (name, request)
