"""A short look at every reader; `make fuzz` takes a million inputs."""

import random
import struct

import msgspec
import pytest

from brokertwin.streaming.checkpoint import store_files
from tests.fuzz.__main__ import fuzz
from tests.fuzz.mutations import changed
from tests.fuzz.targets import CELL, TARGETS, Events
from tests.support.examples import ARE_NEW, examples


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_changed_inputs_raise_only_declared_exceptions(name: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if ARE_NEW else 7
    tried = fuzz(name, examples(60), seed)
    assert [(why, data[:200], seed) for data, why in tried.failed] == []


def test_a_seed_draws_the_same_and_every_seed_is_read_as_it_is() -> None:
    for target in TARGETS.values():
        read = target.reader()
        for data in target.seeds():
            read(data)
    one, two = (changed(b"some bytes", b"others", random.Random(5)) for _ in range(2))
    assert one == two != b"some bytes"


def test_a_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(data: bytes) -> None:
        struct.unpack(">q", data)

    monkeypatch.setitem(TARGETS, "frames", TARGETS["frames"]._replace(reader=lambda: breaks))
    assert len(fuzz("frames", 20, 1).failed) >= 19


def block(packed_size: int, size: int) -> bytes:
    return store_files.LZ4_HEADER.pack(store_files.LZ4_MAGIC, 0x25, packed_size, size, 0) + b"x" * 9


@pytest.mark.parametrize("sizes", [(9, 2**31 - 1), (-30, 5), (9, -1), (9, (1 << 15) + 1)])
def test_a_changelog_whose_blocks_claim_too_much_is_refused(sizes: tuple[int, int]) -> None:
    """Two gigabytes would be taken for it, or the same block read for ever."""
    with pytest.raises(store_files.NotReadable, match="a block of"):
        list(store_files.changes(block(*sizes)))


def test_a_topic_id_that_is_none_is_nobodys_and_no_fault() -> None:
    """It was a fault: the order of the responses hashed it."""
    header = {"requestApiKey": 84, "requestApiVersion": 0, "correlationId": 1, "clientId": "c"}
    topic = {"topicId": "x" * 21, "partitions": [{"partition": 0, "leaderEpoch": 0}]}
    request = {"groupId": "g", "topics": [topic]}
    event = {"id": "e", "cluster": CELL, "requestHeader": header, "request": request}
    Events().read(msgspec.json.encode(event))
