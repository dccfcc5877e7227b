"""Rules of replication and isolation that are broken on purpose.

They concern in-sync sets, offsets of open transactions, and the order of commits.
"""

from tests.planted.planting import Planted

PLANTED_ISOLATION: tuple[Planted, ...] = (
    Planted(
        "watermark-of-in-sync",
        "the high watermark waits for in-sync replicas only",
        "brokertwin.state.replication.leader",
        "            if broker in maximal\n",
        "            if True\n",
    ),
    Planted(
        "joiner-caught-up",
        "who joins the in-sync set has what is committed",
        "brokertwin.state.replication.leader",
        "        and offset >= max(high_watermark_now, leadership.epoch_start_offset)\n",
        "",
    ),
    Planted(
        "refused-too-few",
        "an append is refused while too few are in sync",
        "brokertwin.state.apis.produce",
        "    if is_short and request.body.acks == ALL_IN_SYNC:\n",
        "    if False:\n",
    ),
    Planted(
        "aborted-commits",
        "the offsets of an aborted transaction are dropped",
        "brokertwin.state.transactions.transactional_offsets",
        "    if is_commit:\n",
        "    if True:\n",
    ),
    Planted(
        "unstable-offset",
        "a stable offset is not returned while a transaction has a newer one",
        "brokertwin.state.apis.offset_fetch",
        "if (topic, partition) in self._unstable:",
        "if False:",
    ),
)
