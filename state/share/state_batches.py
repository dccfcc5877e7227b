"""How batches of records in flight become one list: of what is told of a record, what is later.

Source: `PersisterStateBatchCombiner` in Kafka. Where batches overlap, the one counts that was
delivered more often, then the one whose state is later. Kafka may leave two neighbours of one state
apart that are one batch here; it comes to the same.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from brokertwin.state.core.share_records import ShareStateBatch


def combined(batches: Iterable[ShareStateBatch], start_offset: int) -> list[ShareStateBatch]:
    """Batches in the order of their offsets, none over another, from `start_offset` on.

    A start offset -1 is below all of them.
    """
    kept = [_from(batch, start_offset) for batch in batches if batch.last_offset >= start_offset]
    return kept if len(kept) < 2 else _merged(kept)


def _from(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch:
    first = max(batch.first_offset, start_offset)
    return ShareStateBatch(first, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _merged(batches: list[ShareStateBatch]) -> list[ShareStateBatch]:
    batches = sorted(batches, key=lambda each: each.first_offset)
    edges = sorted({edge for each in batches for edge in (each.first_offset, each.last_offset + 1)})
    coming = iter(batches)
    following = next(coming, None)
    open_batches: list[tuple[int, int, int]] = []  # the one that counts comes first
    merged: list[ShareStateBatch] = []
    for first, end in pairwise(edges):
        while following is not None and following.first_offset <= first:
            rank = (-following.delivery_count, -following.delivery_state)
            heappush(open_batches, (*rank, following.last_offset))
            following = next(coming, None)
        while open_batches and open_batches[0][2] < first:
            heappop(open_batches)
        if open_batches:
            count, state, _ = open_batches[0]
            _add(merged, ShareStateBatch(first, end - 1, -state, -count))
    return merged


def _add(merged: list[ShareStateBatch], batch: ShareStateBatch) -> None:
    """Takes a part in, as one with the last where that goes on in the same way."""
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
