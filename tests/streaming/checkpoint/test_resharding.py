"""Loads of a job after its clusters' cell counts change."""

import msgspec

from brokertwin.streaming.checkpoint import resharding
from tests.support.made_checkpoints import FACTS


def test_new_cells_share_the_load_of_their_cluster() -> None:
    loads = {"hot.0": 500, "hot.1": 101, "cold": 7}
    former = msgspec.structs.replace(FACTS, loads=loads)
    wanted = ["hot.0", "hot.1", "hot.2", "cold", "never"]
    assert resharding.loads(former, wanted) == {"hot.0": 200, "hot.1": 200, "hot.2": 200, "cold": 7}
