"""Memory of deleted batches is returned to the operating system, rate-limited."""

import asyncio
import gc
import os
from pathlib import Path

from brokertwin.gateway.engine.freed_memory import BATCHES_LEAST, EVERY_S, FreedMemory, malloc_trim

BLOCK = 4_000
"""Bytes of an allocation: above pymalloc's limit, below malloc's mmap threshold."""


def test_memory_is_returned_after_large_deletions_only() -> None:
    calls: list[int] = []
    freed = FreedMemory(lambda pad: calls.append(pad) or 1, lambda: 0.0)
    assert not asyncio.run(freed.give_back(BATCHES_LEAST - 1))
    assert asyncio.run(freed.give_back(BATCHES_LEAST))
    assert calls == [0]


def test_memory_is_returned_once_per_interval() -> None:
    now = 0.0
    freed = FreedMemory(lambda _: 1, lambda: now)
    assert asyncio.run(freed.give_back(BATCHES_LEAST))
    now = EVERY_S - 1
    assert not asyncio.run(freed.give_back(2 * BATCHES_LEAST))
    now = EVERY_S
    assert asyncio.run(freed.give_back(2 * BATCHES_LEAST))
    now = 2 * EVERY_S
    assert not asyncio.run(freed.give_back(2 * BATCHES_LEAST + 1)), "nothing was deleted since"


def test_nothing_is_returned_without_glibc() -> None:
    assert not asyncio.run(FreedMemory(None).give_back(BATCHES_LEAST))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_glibc_returns_memory_below_allocations_in_use() -> None:
    trim = malloc_trim()
    assert trim is not None, "this test needs glibc"
    blocks = [bytes(BLOCK) for _ in range(20_000)]
    last = bytes(BLOCK)
    full = resident_bytes()
    del blocks
    gc.collect()
    assert asyncio.run(FreedMemory(trim).give_back(BATCHES_LEAST))
    assert full - resident_bytes() > 40_000_000
    assert last == bytes(BLOCK)
