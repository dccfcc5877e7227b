"""Order of equal items in Java's `PriorityQueue`.

Source: `PriorityQueue.siftUp`, `.siftDown` in Java.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaPriorityQueue(Generic[T]):
    """A heap, lightest first; an item's `weight` is read while it moves."""

    def __init__(self, weight: Callable[[T], float]) -> None:
        self._weight = weight
        self._heap: list[T] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, weight = self._heap, self._weight
        heap.append(item)
        at = len(heap) - 1
        while at > 0 and weight(item) < weight(heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = item

    def poll(self) -> T | None:
        """Remove and return the lightest item, or None."""
        if not self._heap:
            return None
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._sift_down(last)
        return first

    def _sift_down(self, item: T) -> None:
        heap, weight, at = self._heap, self._weight, 0
        while (child := 2 * at + 1) < len(heap):
            right = child + 1
            if right < len(heap) and weight(heap[child]) > weight(heap[right]):
                child = right
            if weight(item) <= weight(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = item
