"""Rules of share groups that are broken on purpose; `planted.py` has the others."""

from tests.planted.planting import Planted

PLANTED_SHARES: tuple[Planted, ...] = (
    Planted(
        "share-held",
        "a record that a member has is given to no other one",
        "brokertwin.state.share.in_flight",
        "return self.state == RecordState.AVAILABLE and self.former is None",
        "return self.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)",
    ),
    Planted(
        "share-accepted",
        "an accepted record is done with",
        "brokertwin.state.share.share_partition",
        "    ACCEPT: RecordState.ACKNOWLEDGED,\n",
        "    ACCEPT: RecordState.AVAILABLE,\n",
    ),
    Planted(
        "share-rejected",
        "a rejected record does not come again",
        "brokertwin.state.share.share_partition",
        "    REJECT: RecordState.ARCHIVED,\n",
        "    REJECT: RecordState.AVAILABLE,\n",
    ),
    Planted(
        "share-released",
        "a released record comes again",
        "brokertwin.state.share.share_partition",
        "    RELEASE: RecordState.AVAILABLE,\n",
        "    RELEASE: RecordState.ARCHIVED,\n",
    ),
    Planted(
        "share-count",
        "each delivery is counted",
        "brokertwin.state.share.in_flight",
        "        self.delivery_count += 1\n",
        "        self.delivery_count = 1\n",
    ),
    Planted(
        "share-limit",
        "a record is archived after its last delivery",
        "brokertwin.state.share.in_flight",
        "self.delivery_count >= limit",
        "self.delivery_count > limit",
    ),
    Planted(
        "share-lock",
        "a lock ends when its time is over, and not before",
        "brokertwin.state.share.share_partition",
        "NO_LOCK != record.locked_until <= now",
        "NO_LOCK != record.locked_until",
    ),
    Planted(
        "share-owner",
        "only who has a record says what becomes of it",
        "brokertwin.state.share.share_partition",
        "    if record.member_id != member_id:\n        return _BATCH_OTHERS\n",
        "",
    ),
    Planted(
        "share-owner-single",
        "the same, of a record of a batch that has parted",
        "brokertwin.state.share.share_partition",
        "    return _OTHERS if record.member_id != member_id else None\n",
        "    return None\n",
    ),
    Planted(
        "share-loads",
        "a new leader knows what the share coordinator knows of records",
        "brokertwin.state.share.share_partitions",
        "share.load(result.state_epoch, start, result.state_batches)",
        "share.load(result.state_epoch, start, [])",
    ),
    Planted(
        "share-start",
        "the start offset goes over records that are done with, and no others",
        "brokertwin.state.share.share_partition",
        (
            "        if not self.batches[begun - 1].at(self.start_offset).is_done:\n"
            "            return None\n"
        ),
        "        if not self.batches[begun - 1].at(self.start_offset).is_done:\n"
        "            return self.start_offset, 0\n",
    ),
    Planted(
        "share-client-drops",
        "what comes of a partition that a member does not have any more is released, not accepted",
        "brokertwin.clients.share_fetcher",
        "AcknowledgeType.RELEASE, had)",
        "AcknowledgeType.ACCEPT, had)",
    ),
    Planted(
        "share-client-waits",
        "what a member has got is accepted when it polls again, not when it comes",
        "brokertwin.clients.share_fetcher",
        "                    self._buffered.append(_BufferedRecord(delivered, until))\n",
        "                    self._buffered"
        ".append(_BufferedRecord(delivered, until))\n"
        "                    kept = session.acknowledged.setdefault(place, {})\n"
        "                    kept[offset] = AcknowledgeType.ACCEPT\n",
    ),
)
