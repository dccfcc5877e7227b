"""How many examples a property tries, and which: always the same few, or many new ones.

`EXAMPLES=20 pytest tests/clients` tries twenty times as many of each, others each time.
"""

import os

TIMES = int(os.environ.get("EXAMPLES", "1"))
ARE_NEW = not os.environ.keys().isdisjoint({"EXAMPLES", "HISTORIES"})
"""Whether the run searches for unknown errors; users who try the software need the known ones."""


def examples(count: int) -> int:
    """So many in a short run, a multiple of it in a long one."""
    return count * TIMES
