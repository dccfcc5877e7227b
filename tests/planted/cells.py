"""Rules of cells and of followers that are broken on purpose; `planted.py` has the others.

They concern repeated decisions, messages between cells, and the logs of followers.
"""

from tests.planted.planting import Planted

PLANTED_CELLS: tuple[Planted, ...] = (
    Planted(
        "again-in-time",
        "events that are decided again are decided at their time",
        "brokertwin.state.cell.cell",
        "        self.meta = self._meta_before\n",
        "",
    ),
    Planted(
        "settings-between-cells",
        "brokers of other cells hear of settings",
        "brokertwin.state.cell.between_cells",
        "            self._send_event(cell, Kind.METADATA, MetadataEvent(record))\n",
        (
            '            if type(record).__name__ != "ConfigChanged":\n'
            "                self._send_event(cell, Kind.METADATA, MetadataEvent(record))\n"
        ),
    ),
    Planted(
        "follower-start",
        "a follower's log begins no earlier than its leader's",
        "brokertwin.state.replication.follower",
        "        records.append(LogStartMoved(*place, start))\n",
        "        pass\n",
    ),
    Planted(
        "follower-last-watermark",
        "a follower that has all hears of the high watermark",
        "brokertwin.state.replication.reading",
        "replica.sent_high_watermark != log.high_watermark",
        "replica.sent_high_watermark < 0",
    ),
    Planted(
        "answered-behind",
        "an answer that has nothing to write waits for what was written before",
        "brokertwin.state.cell.committing",
        "log.high_watermark < log.log_end_offset",
        "False",
    ),
    Planted(
        "client-leader-node",
        "a producer asks for metadata where a leader is no node that it knows",
        "brokertwin.clients.accumulator",
        "            if leader is None:\n",
        "            if head.topic_partition not in cluster.partitions:\n",
    ),
)
