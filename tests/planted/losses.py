"""Rules about permitted losses that are broken on purpose; `planted.py` has the others."""

from tests.planted.planting import Planted

PLANTED_LOSSES: tuple[Planted, ...] = (
    Planted(
        "deleted-start",
        "records that are deleted are gone",
        "brokertwin.state.apis.delete_records",
        "        records.append(LogStartMoved(topic.topic_id, index, offset))\n",
        "        pass\n",
    ),
    Planted(
        "deleted-up-to",
        "records from the offset of a deletion on stay",
        "brokertwin.state.apis.delete_records",
        "records.append(LogStartMoved(topic.topic_id, index, offset))",
        "records.append(LogStartMoved(topic.topic_id, index, log.high_watermark))",
    ),
    Planted(
        "old-young",
        "records that are young stay",
        "brokertwin.state.logs.retention",
        "is_old = 0 <= limits.retention_ms < now - segment.max_timestamp",
        "is_old = 0 <= limits.retention_ms",
    ),
    Planted(
        "client-out-of-range",
        "a reader whose offset is gone begins where `auto.offset.reset` says",
        "brokertwin.clients.fetcher",
        "        if code == Error.OFFSET_OUT_OF_RANGE:\n"
        "            self._subscription.reset(partition)\n",
        "        if code == Error.OFFSET_OUT_OF_RANGE:\n            pass\n",
    ),
    Planted(
        "denied-writes",
        "who may not write appends nothing",
        "brokertwin.state.apis.produce",
        "verified = Verifications(_denied(broker, request))",
        "verified = Verifications(frozenset())",
    ),
)
