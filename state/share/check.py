"""What must hold of share states: their batches ascend, from the start offset on."""

from brokerstream.state.core.check import Violations, by_kind
from brokerstream.state.core.tables import Tables
from brokerstream.state.share.state_store import KIND, ShareState


def check(tables: Tables) -> Violations:
    """What does not hold of the states in the table `groups`."""
    for key in by_kind(tables.groups).get(KIND, []):
        state = tables.groups.get(key, ShareState)
        assert state is not None, key
        end = state.snapshot.start_offset - 1
        for batch in state.snapshot.batches:
            if not end < batch.first_offset <= batch.last_offset:
                yield f"{key} has {batch} behind offset {end}"
            end = batch.last_offset
