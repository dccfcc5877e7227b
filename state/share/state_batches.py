"""Merging of state batches of a share partition.

Source: `PersisterStateBatchCombiner` in Kafka. Where batches overlap, the higher delivery count
wins, then the higher state. Kafka may leave equal neighbours separate that are merged here, which
is equivalent.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from brokertwin.state.core.share_records import ShareStateBatch


def combined(batches: Iterable[ShareStateBatch], start_offset: int) -> list[ShareStateBatch]:
    """Return batches by offset, without overlaps, from `start_offset` on.

    Start offset -1 is below all batches.
    """
    kept = [_from(batch, start_offset) for batch in batches if batch.last_offset >= start_offset]
    return kept if len(kept) < 2 else _merged(kept)


def _from(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch:
    first = max(batch.first_offset, start_offset)
    return ShareStateBatch(first, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _merged(batches: list[ShareStateBatch]) -> list[ShareStateBatch]:
    batches = sorted(batches, key=lambda each: each.first_offset)
    edges = sorted({edge for each in batches for edge in (each.first_offset, each.last_offset + 1)})
    remaining = iter(batches)
    following = next(remaining, None)
    open_batches: list[tuple[int, int, int]] = []  # the winning batch comes first
    merged: list[ShareStateBatch] = []
    for first, end in pairwise(edges):
        while following is not None and following.first_offset <= first:
            rank = (-following.delivery_count, -following.delivery_state)
            heappush(open_batches, (*rank, following.last_offset))
            following = next(remaining, None)
        while open_batches and open_batches[0][2] < first:
            heappop(open_batches)
        if open_batches:
            count, state, _ = open_batches[0]
            _add(merged, ShareStateBatch(first, end - 1, -state, -count))
    return merged


def _add(merged: list[ShareStateBatch], batch: ShareStateBatch) -> None:
    """Append a batch, merged with the previous one if possible."""
    if merged:
        last = merged[-1]
        is_same = (last.delivery_state, last.delivery_count) == (
            batch.delivery_state,
            batch.delivery_count,
        )
        if is_same and last.last_offset + 1 == batch.first_offset:
            merged[-1] = ShareStateBatch(
                last.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            return
    merged.append(batch)
