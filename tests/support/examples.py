"""How many examples a property tries: few in every run, many where somebody asks for them.

`EXAMPLES=20 pytest tests/clients` tries twenty times as many of each.
"""

import os

TIMES = int(os.environ.get("EXAMPLES", "1"))


def examples(count: int) -> int:
    """So many in a short run, a multiple of it in a long one."""
    return count * TIMES
