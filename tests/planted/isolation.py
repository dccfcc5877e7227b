"""Rules of replication and isolation that are broken on purpose.

They concern in-sync sets, the last stable offset, and the order of commits.
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
        "if is_for_all and copying.has_too_few_in_sync(",
        "if False and copying.has_too_few_in_sync(",
    ),
    Planted(
        "first-open",
        "the last stable offset is that of the first open transaction",
        "brokertwin.state.logs.log",
        "self.transactions[0].first_offset",
        "self.transactions[-1].first_offset",
    ),
    Planted(
        "order-of-commits",
        "a transaction does not override a commit that was written after its own",
        "brokertwin.state.transactions.transactional_offsets",
        "each.is_superseded = True",
        "each.is_superseded = False",
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
