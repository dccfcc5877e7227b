"""Rules that are broken on purpose, to see that the simulator finds it: `simulate --planted`."""

from tests.planted.applications import APPLICATIONS
from tests.planted.cells import PLANTED_CELLS
from tests.planted.denials import PLANTED_DENIALS
from tests.planted.isolation import PLANTED_ISOLATION
from tests.planted.losses import PLANTED_LOSSES
from tests.planted.planting import Planted
from tests.planted.shares import PLANTED_SHARES

PLANTED: tuple[Planted, ...] = (
    Planted(
        "duplicates",
        "a batch that repeats one of the last five is not appended again",
        "brokertwin.state.logs.producer",
        "                return SequenceCheck(NONE, each)\n",
        "                return ACCEPTED\n",
    ),
    Planted(
        "duplicates-of-one",
        "the last five batches of a producer are remembered",
        "brokertwin.state.logs.producer",
        (
            "    if len(producer.batches) >= BATCHES_KEPT:\n"
            "        del producer.batches[: 1 - BATCHES_KEPT]\n"
        ),
        "    producer.batches.clear()\n",
    ),
    Planted(
        "sequence-count",
        "the next sequence is one above the last",
        "brokertwin.state.logs.producer",
        "expected = (producer.batches[-1].last_sequence + 1)",
        "expected = (producer.batches[-1].last_sequence + 2)",
    ),
    Planted(
        "epoch-forgets-batches",
        "a new epoch of a producer begins with sequence 0",
        "brokertwin.state.logs.producer",
        ("    if is_newer or not producer.batches:\n        expected = 0\n    else:"),
        ("    if not producer.batches:\n        expected = 0\n    else:"),
    ),
    Planted(
        "open-in-log",
        "a transaction is open in the log from its first batch on",
        "brokertwin.state.logs.log_transactions",
        (
            "        if known is None:\n"
            "            transactions.append(LogTransaction(batch.producer_id, "
            "batch.base_offset))\n"
            "        return None\n"
        ),
        "        return None\n",
    ),
    Planted(
        "aborted-from",
        "an aborted transaction begins with its first record",
        "brokertwin.state.logs.log_transactions",
        "known.producer_id, known.first_offset, known.last_offset, last_stable_offset",
        "known.producer_id, known.last_offset, known.last_offset, last_stable_offset",
    ),
    Planted(
        "level-of-reader",
        "read_committed readers end at the last stable offset",
        "brokertwin.state.logs.log",
        "return self.last_stable_offset if is_committed_only else self.high_watermark",
        "return self.high_watermark",
    ),
    Planted(
        "open-by-producer",
        "a marker ends the transaction of its own producer",
        "brokertwin.state.logs.log_transactions",
        "if each.producer_id == producer_id and each.last_offset == NO_OFFSET:",
        "if each.last_offset == NO_OFFSET:",
    ),
    Planted(
        "marker-type",
        "an abort writes an abort marker",
        "brokertwin.state.transactions.transactions",
        "(_S.ONGOING, _E.ABORT): Transition(_S.PREPARE_ABORT, _end)",
        "(_S.ONGOING, _E.ABORT): Transition(_S.PREPARE_COMMIT, _end)",
    ),
    Planted(
        "holder-epoch",
        "only who holds the epoch may add and end",
        "brokertwin.state.transactions.transactions",
        ("return Error.NONE if current.producer_epoch == holder.epoch else Error.PRODUCER_FENCED"),
        "return Error.NONE",
    ),
    Planted(
        "epoch-bump",
        "each InitProducerId bumps the epoch",
        "brokertwin.state.transactions.transactions",
        "producer_id, epoch = current.producer_id, current.producer_epoch + 1",
        "producer_id, epoch = current.producer_id, max(current.producer_epoch, 0)",
    ),
    Planted(
        "init-aborts",
        "InitProducerId aborts the open transaction first",
        "brokertwin.state.transactions.transactions",
        "(_S.ONGOING, _E.INIT): Transition(_S.PREPARE_EPOCH_FENCE, _fence)",
        "(_S.ONGOING, _E.INIT): Transition(_S.EMPTY, _init_producer_id)",
    ),
    Planted(
        "busy-add",
        "no partition joins while markers are under way",
        "brokertwin.state.transactions.transactions",
        "    **{(state, _E.ADD): _BUSY for state in PREPARED},",
        ("    **{(state, _E.ADD): Transition(_S.ONGOING, _begin) for state in PREPARED},"),
    ),
    Planted(
        "join-keeps",
        "partitions that join are added to those there are",
        "brokertwin.state.transactions.transactions",
        "    partitions = _union(current.partitions, data.partitions)",
        "    partitions = _union({}, data.partitions)",
    ),
    Planted(
        "time-out",
        "a transaction that lasts too long is aborted",
        "brokertwin.state.transactions.transactions",
        "return current.state == TransactionState.ONGOING and deadline(current) < now",
        "return False",
    ),
    Planted(
        "busy-init",
        "InitProducerId waits while markers are under way",
        "brokertwin.state.transactions.transactions",
        "    **{(state, _E.INIT): _BUSY for state in PREPARED},",
        (
            "    **{(state, _E.INIT): Transition(_S.EMPTY, _init_producer_id)"
            " for state in PREPARED},"
        ),
    ),
    Planted(
        "pending-in-log",
        "transactions are not written with too few in sync",
        "brokertwin.state.replication.internal_logs",
        "    is_checked = topic.name == TRANSACTION_TOPIC\n",
        "    is_checked = False\n",
    ),
    Planted(
        "id-busy",
        "what a coordinator is still writing of an id keeps it busy",
        "brokertwin.state.transactions.transactional_ids",
        "    table.change(key, Busy).writes += 1",
        "    table.drop(key)",
    ),
    Planted(
        "high-watermark-at-once",
        "the high watermark does not rise with the append",
        "brokertwin.state.logs.log_tail",
        "        if self.is_only_replica:\n",
        "        if batch:\n",
    ),
    Planted(
        "too-few-in-sync",
        "the high watermark stays while too few are in sync",
        "brokertwin.state.replication.leader",
        ("    if len(leadership.isr) < min_in_sync:\n        return None\n"),
        "",
    ),
    Planted(
        "joiner-counts",
        "who joins counts for the high watermark",
        "brokertwin.state.replication.leader",
        "return frozenset(self.isr) | frozenset(self.pending or ())",
        "return frozenset(self.isr)",
    ),
    Planted(
        "acks-all",
        "acks -1 waits until the high watermark has passed the append",
        "brokertwin.state.replication.acks",
        "    if log.high_watermark < required_offset:\n",
        "    if log.high_watermark < required_offset - 1:\n",
    ),
    Planted(
        "follower-high-watermark",
        "a follower takes the high watermark no further than its own log",
        "brokertwin.state.replication.follower",
        "high_watermark = max(start, min(response.high_watermark, end))",
        "high_watermark = max(start, response.high_watermark)",
    ),
    Planted(
        "follower-offset",
        "a follower has what lies below its fetch, not all that it is sent",
        "brokertwin.state.replication.leader",
        "    replica.log_end_offset = offset\n",
        "    replica.log_end_offset = end\n",
    ),
    Planted(
        "join-epoch-start",
        "who joins has reached the start of the leader's epoch",
        "brokertwin.state.replication.leader",
        "offset >= max(high_watermark_now, leadership.epoch_start_offset)",
        "offset >= high_watermark_now",
    ),
    Planted(
        "elect-in-sync",
        "who is elected is in sync",
        "brokertwin.state.replication.elections",
        "        if broker in may_lead and rules.may_lead(partition, broker):\n",
        "        if rules.may_lead(partition, broker):\n",
    ),
    Planted(
        "commit-replicated",
        "a commit is answered when followers have it, not before",
        "brokertwin.state.cell.committing",
        "    return None if None in found else Error.NONE",
        "    return Error.NONE",
    ),
    Planted(
        "coordinator-loads",
        "a new coordinator loads what its log has",
        "brokertwin.state.cell.loading",
        (
            "        for written in internal_logs.in_batch(batch.written):\n"
            "            if isinstance"
        ),
        ("        for written in internal_logs.in_batch(None):\n            if isinstance"),
    ),
    Planted(
        "offset-committed",
        "an offset that is not committed is not seen",
        "brokertwin.state.apis.offset_fetch",
        ("        if offset < log.high_watermark and isinstance(record, OffsetCommitted):"),
        "        if isinstance(record, OffsetCommitted):",
    ),
    Planted(
        "coordinator-forgets",
        "a coordinator that is none any more forgets",
        "brokertwin.state.cell.handover",
        "records=[PartitionUnloaded(*place)] if is_in_log else []",
        "records=[]",
    ),
    Planted(
        "assignment-committed",
        "an assignment is told when followers have it",
        "brokertwin.state.groups.classic_coordinator",
        "        if not has_followers(self._broker, GROUP_TOPIC, group.group_id):\n",
        "        if True:\n",
    ),
    Planted(
        "unfenced-fetches",
        "who is unfenced fetches, whatever its leaders know",
        "brokertwin.state.cell.event_loop",
        "                self._fetch_again(broker)  # its leaders",
        "                pass  # its leaders",
    ),
    Planted(
        "severed-catches-up",
        "a severed broker that is back reads what it has missed",
        "brokertwin.state.replication.network",
        "    late = network.unread.pop(broker, []), network.unsent.pop(broker, [])\n",
        "    late = network.unread.pop(broker, [])[:0], network.unsent.pop(broker, [])\n",
    ),
    Planted(
        "restart-high-watermark",
        "a broker that starts goes back to the high watermark of its file",
        "brokertwin.state.replication.checkpoints",
        ("offset = max(log.log_start_offset, min(in_file(broker, log), log.log_end_offset))"),
        "offset = log.high_watermark",
    ),
    Planted(
        "reopened",
        "a high watermark that goes back opens transactions again",
        "brokertwin.state.logs.truncation",
        "            log_transactions.replay_batch(log.transactions, batch.header())\n",
        "            pass\n",
    ),
    Planted(
        "told-again",
        "who is back is told the high watermark again",
        "brokertwin.state.replication.copying",
        "        replica.sent_high_watermark = leader.UNKNOWN\n",
        "",
    ),
    Planted(
        "reappearing-session",
        "a process starts only when the session of the one before is over",
        "brokertwin.state.cell.event_loop",
        "is_late = network.is_severed(table, broker) or has_session",
        "is_late = network.is_severed(table, broker)",
    ),
    Planted(
        "owned-partitions",
        "a partition that somebody has is not given to another member",
        "brokertwin.state.groups.member_assignment",
        "free = [p for p in wanted if p in pending or not inputs.has_owner(topic_id, p)]",
        "free = list(wanted)",
    ),
    Planted(
        "silence-keeps",
        "a member that says nothing of what it owns has not given anything back",
        "brokertwin.state.groups.member_assignment",
        ("    if owned is None:\n        return True\n"),
        ("    if owned is None:\n        return False\n"),
    ),
    Planted(
        "commit-stored",
        "an offset that was acknowledged is stored",
        "brokertwin.state.apis.offset_commit",
        "                records.append(_record(broker, body, topic, partition))\n",
        (
            "                if partition.committed_offset % 7:\n"
            "                    records.append(_record(broker, body, topic, partition))\n"
        ),
    ),
    Planted(
        "changed-rebalances",
        "who has changed rebalances a stable group",
        "brokertwin.state.apis.join_group",
        "if is_leader or member.protocols != self._protocols():",
        "if is_leader:",
    ),
    Planted(
        "timers-of-group",
        "a group that goes takes its timers along",
        "brokertwin.state.groups.groups",
        "    for timer in [JOIN, SYNC, *heartbeats]:\n",
        "    for timer in [JOIN, SYNC]:\n",
    ),
    Planted(
        "generation-bump",
        "each rebalance begins a generation",
        "brokertwin.state.groups.classic_coordinator",
        "        group.generation_id += 1\n",
        "        group.generation_id = max(group.generation_id, 1)\n",
    ),
    Planted(
        "session-offset",
        "a fetch session reads on from where its client says that it is",
        "brokertwin.state.fetch.fetch_session",
        "                cached.requested = requested\n",
        "                cached.requested.max_bytes = requested.max_bytes\n",
    ),
    Planted(
        "leader-appends",
        "who does not lead a partition appends nothing to it",
        "brokertwin.state.apis.produce",
        "    if tail is None or topic.partitions[produced.index].leader != broker.id:\n",
        "    if tail is None:\n",
    ),
    Planted(
        "repeats-between-cells",
        "a repeated event of another cell changes nothing",
        "brokertwin.state.cell.between_cells",
        ("return (event.incarnation, event.sequence) <= (last.incarnation, last.sequence)"),
        ("return (event.incarnation, event.sequence) == (last.incarnation, last.sequence)"),
    ),
    Planted(
        "next-between-cells",
        "an event of another cell is taken where it is the next, and not earlier",
        "brokertwin.state.cell.between_cells",
        "return event.incarnation >= last.incarnation and event.sequence == following",
        "return event.incarnation >= last.incarnation and event.sequence >= following",
    ),
    Planted(
        "follower-cells-cut",
        "leaders in other cells hear of a broker that is cut off",
        "brokertwin.state.cell.event_loop",
        "            self._outward.cut_off(broker)\n",
        "            pass\n",
    ),
    Planted(
        "client-commit-flushed",
        "a commit waits until every record has its outcome",
        "brokertwin.clients.transactions",
        "if self.state is TransactionManagerState.COMMITTING and is_flushed:",
        "if self.state is TransactionManagerState.COMMITTING:",
    ),
    Planted(
        "client-adds-first",
        "a partition is in the transaction before its first batch",
        "brokertwin.clients.transactions",
        ("        self._to_add[partition] = None\n        return False\n"),
        ("        self._to_add[partition] = None\n        return True\n"),
    ),
    Planted(
        "client-lost",
        "a member of no generation any more has lost its partitions",
        "brokertwin.clients.consumer_coordinator",
        "            self._give_back(assigned, is_lost=True)\n",
        "            pass\n",
    ),
    Planted(
        "client-position",
        "what came for another position is dropped",
        "brokertwin.clients.fetcher",
        "if position != first.position or",
        "if position is None or",
    ),
    Planted(
        "client-reads-committed",
        "a partition that is assigned anew is read from what is committed",
        "brokertwin.clients.subscription_state",
        "self.positions = {each: self.positions.get(each) for each in partitions}",
        "self.positions = {each: self.positions.get(each, 1) for each in partitions}",
    ),
    *PLANTED_SHARES,
    *PLANTED_CELLS,
    *APPLICATIONS,
    *PLANTED_LOSSES,
    *PLANTED_DENIALS,
    *PLANTED_ISOLATION,
)
"""What breaks each is the least change of its text that makes it another rule."""
