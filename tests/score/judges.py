"""Judges: is a finding, and each of its causes, true?

A judge compares the fields of a finding with facts that do not come from a log. A statement without
a judge, or about what the facts do not cover, is undecided.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.simulation.truth import ABORTED, OPEN, OffsetStored, TransactionMoved
from tests.score.known_truth import KnownTruth


class Verdict(StrEnum):
    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"


class Judged(NamedTuple):
    """A statement with its verdict; `cause` is "" for the finding itself."""

    kind: str
    cause: str
    verdict: Verdict
    finding: f.Finding
    why: str = ""


T, F, U = Verdict.TRUE, Verdict.FALSE, Verdict.UNDECIDED
Answer = Verdict | tuple[Verdict, str]


def judged(found: f.Finding, truth: KnownTruth) -> Iterator[Judged]:
    yield _judged(found, "", _finding(found, truth))
    for cause in found.causes:
        yield _judged(found, type(cause).__name__, _cause(found, cause, truth))
    if isinstance(found, f.GenerationBegan) and found.by_request is not None:
        yield _judged(found, "by", _begun_by(found, found.by_request, truth))
    if isinstance(found, f.ProducerFenced) and truth.is_whole:
        for newer in found.newer:
            yield _judged(found, "newer", _epoch_bumped(found, newer, truth))


def _judged(found: f.Finding, cause: str, answer: Answer) -> Judged:
    verdict, why = answer if isinstance(answer, tuple) else (answer, "")
    return Judged(found.kind, cause, verdict, found, why)


def _is(holds: object, why: str = "") -> Answer:
    return T if holds else (F, why)


# Findings


def _finding(found: f.Finding, truth: KnownTruth) -> Answer:
    if type(found) in OF_WHOLE and not truth.is_whole:
        return U
    judge = FINDINGS.get(type(found))
    return judge(found, truth) if judge is not None else U


def _rebalance(found: f.Rebalance | f.GenerationBegan, truth: KnownTruth) -> Answer:
    numbers = {each.number for each in truth.generations[found.group]}
    return _is(found.number in numbers, f"generations are {sorted(numbers)}")


def _not_in_next(found: f.MemberNotInNext, truth: KnownTruth) -> Answer:
    ends = [
        each
        for each in truth.changes[found.group]
        if each.member == found.member and each.change not in ("joined", "rejoined", "returned")
    ]
    names = {each.change for each in ends}
    is_gone = names & {"expired", "replaced", "forgotten"}
    return _is(is_gone, f"{found.member}: {sorted(names) or 'is there'}")


def _member(*changes: str) -> Callable[..., Answer]:
    def judge(
        found: f.MemberGone | f.MemberAway | f.MemberCame | f.MaxPollExceeded, truth: KnownTruth
    ) -> Answer:
        facts = [each for each in truth.changes[found.group] if each.member == found.member]
        names = {each.change for each in facts}
        if not facts and found.line.api == "LEAVE_GROUP":
            return U  # a coordinator accepts it for an id that has not joined, too
        return _is(names & {*changes}, f"{found.member}: {sorted(names) or 'unknown'}")

    return judge


def _came_back(found: f.MemberCameBack, truth: KnownTruth) -> Answer:
    name = found.left.name
    facts = [each for each in truth.changes[found.group] if each.of == name]
    left = [each.time for each in facts if each.change in ("left", "away")]
    back = [each.time for each in facts if each.change in ("joined", "returned", "replaced")]
    is_so = left and back and min(left) <= max(back) + truth.tolerance_ms
    return _is(is_so, f"{name}: {[(each.change, each.time) for each in facts]}")


def _committed(found: f.OffsetCommitted, truth: KnownTruth) -> Answer:
    stored = truth.stored[found.group, found.partition.topic, found.partition.partition]
    is_pending = found.line.api == "TXN_OFFSET_COMMIT"  # it counts when its transaction commits
    limit = float("inf") if is_pending else found.line.end + truth.tolerance_ms
    # the line of a commit that took its place may come after that of the transaction's end
    return _is(
        any(
            (each.time <= limit and each.offset == found.offset)
            or (is_pending and each.time >= found.line.time and each.api == "OFFSET_COMMIT")
            for each in stored
        ),
        f"stored: {[(each.offset, each.time) for each in stored][-5:]}",
    )


def _went_back(found: f.OffsetWentBack, truth: KnownTruth) -> Answer:
    stored = truth.stored[found.group, found.partition.topic, found.partition.partition]
    return _is(
        any(_is_step(each, found) for each in stored),
        f"steps: {[(each.former, each.offset, each.client) for each in stored][-8:]}",
    )


def _is_step(each: OffsetStored, found: f.OffsetWentBack) -> bool:
    is_same = (each.former, each.offset) == (found.former, found.offset)
    return is_same and each.former > each.offset


def _vanished(found: f.OffsetVanished, truth: KnownTruth) -> Answer:
    removed = truth.removed[found.group, found.partition.topic, found.partition.partition]
    limit = found.line.end + truth.tolerance_ms
    apis = {each.api for each in removed if each.time <= limit}
    wanted = {
        f.Vanishing.OFFSET_DELETE: {"OFFSET_DELETE"},
        f.Vanishing.GROUP_DELETED: {"DELETE_GROUPS"},
        f.Vanishing.TOPIC_DELETED: {"DELETE_TOPICS"},
        f.Vanishing.NOT_FETCHED: {"", "OFFSET_DELETE", "DELETE_GROUPS", "DELETE_TOPICS"},
    }[found.why]
    return _is(apis & wanted, f"removed by {sorted(apis)}")


def _epoch_given(found: f.EpochGiven, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    pairs = {(each.producer, each.epoch) for each in facts}
    return _is((found.producer_id, found.epoch) in pairs, f"{sorted(pairs)}")


def _fenced(found: f.ProducerFenced, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name or found.epoch < 0:
        return U
    facts = truth.transactions[name]
    newer = truth.find(
        facts,
        found.line.end,
        lambda e: e.producer != found.producer_id or e.epoch > found.epoch,
    )
    return _is(newer, f"epochs: {[(e.producer, e.epoch, e.time) for e in facts][-5:]}")


def _timed_out(found: f.TransactionTimedOut, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    ended = truth.find(facts, found.line.end, lambda e: e.is_timeout)
    return _is(ended, f"{[(e.state, e.api, e.time) for e in facts][-6:]}")


def _aborted(found: f.CoordinatorAborted, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    aborted = truth.find(facts, found.line.end, lambda e: e.state in ABORTED)
    if aborted is not None and aborted.api == "END_TXN":
        return U  # the log that has the request may be missing: it says that it does not know
    return _is(aborted, f"{[(e.state, e.api, e.time) for e in facts][-6:]}")


def _ended(found: f.TransactionEnded, truth: KnownTruth) -> Answer:
    if not found.number:
        return U  # it says that none is open
    facts = truth.transactions[found.producer.transactional_id]
    wanted = {"PrepareCommit", "CompleteCommit"} if found.is_committed else ABORTED
    span = found.line.time - truth.tolerance_ms, found.line.end + truth.tolerance_ms
    ends = [e for e in facts if span[0] <= e.time <= span[1] and e.state in wanted]
    if not ends:
        ended = truth.find(facts, found.line.end, lambda e: e.state in wanted)
        is_open = found.certainty is not f.Certainty.UNKNOWN and found.is_requested
        is_late = not is_open and ended is not None
        return _is(is_late, f"{[(e.state, e.api, e.time) for e in facts][-6:]} at {span}")
    of_epoch = [e for e in ends if e.former_epoch == found.epoch] or ends
    end = min(of_epoch, key=lambda e: abs(e.time - found.line.time))  # a line may be late
    held = {place for e in _before(facts, end) for place in e.partitions}
    extra = {place for place in found.places if not place.startswith("__")} - held
    return _is(not extra, f"{sorted(extra)} are not in it: {sorted(held)}")


def _before(facts: list[TransactionMoved], end: TransactionMoved) -> Iterator[TransactionMoved]:
    at = facts.index(end)
    yield end
    for each in reversed(facts[:at]):
        if each.state != OPEN and not each.state.startswith("Prepare"):
            return
        yield each


def _began(found: f.TransactionBegan, truth: KnownTruth) -> Answer:
    facts = truth.transactions[found.producer.transactional_id]
    return _is(truth.find(facts, found.line.end, lambda e: e.state == OPEN), "no transaction")


def _broker_gone(found: f.BrokerGone, truth: KnownTruth) -> Answer:
    end = found.back if found.back is not None else float("inf")
    return _is(
        truth.is_broker_restarted(found.broker, found.last_sign, end),
        f"away: {[each for each in truth.away if each.broker == found.broker]}",
    )


def _led(found: f.LeaderChanged, truth: KnownTruth) -> Answer:
    if not truth.partitions:
        return U
    place = truth.name_of(found.partition.topic), found.partition.partition
    leaders = {e.leader for e in truth.partitions if (e.topic, e.partition) == place}
    return _is(found.leader in leaders or not found.former, f"leaders: {leaders}")


def _shrank(found: f.IsrShrank, truth: KnownTruth) -> Answer:
    if not truth.partitions:
        return U
    place = truth.name_of(found.partition.topic), found.partition.partition
    sets = [e.isr for e in truth.partitions if (e.topic, e.partition) == place and e.isr]
    return _is(any(found.broker not in each for each in sets), f"in-sync sets: {sets}")


def _grew(found: f.IsrGrew, truth: KnownTruth) -> Answer:
    if not truth.partitions:
        return U
    place = truth.name_of(found.partition.topic), found.partition.partition
    sets = [e.isr for e in truth.partitions if (e.topic, e.partition) == place and e.isr]
    return _is(any(found.broker in each for each in sets), f"in-sync sets: {sets}")


def _sampled(found: f.SampleTaken | f.IsrSampleTaken, truth: KnownTruth) -> Answer:
    """A high watermark is within the log; the log's end is not known before its batches."""
    of = found.sample
    ends = truth.log_ends
    if (of.topic, of.partition) not in ends:
        return U
    return _is(of.high_watermark <= ends[of.topic, of.partition], f"log end {ends}")


def _lag(found: f.LagSeen, truth: KnownTruth) -> Answer:
    end = truth.log_ends.get((found.partition.topic, found.partition.partition))
    if end is None:
        return U
    return _is(found.lag <= max(end - found.offset, 0), f"log end {end}")


def _batch(found: f.ProducerBegan | f.BatchRepeated, truth: KnownTruth) -> Answer:
    if found.partition is None or found.offset < 0:
        return U
    log = truth.batches.get((found.partition.topic, found.partition.partition), {})
    each = log.get(found.offset)
    if each is None:
        return U
    is_same = each.base_sequence == found.first_sequence and each.producer_epoch == found.epoch
    return _is(is_same, f"the log has sequence {each.base_sequence}, epoch {each.producer_epoch}")


def _advanced(found: f.MemberAdvanced, truth: KnownTruth) -> Answer:
    numbers = {each.number for each in truth.generations[found.group]}
    return _is(found.epoch in numbers and found.former < found.epoch, f"epochs {sorted(numbers)}")


def _took_in(found: f.TransactionTookIn, truth: KnownTruth) -> Answer:
    facts = truth.transactions[found.producer.transactional_id]
    limit = found.line.end + truth.tolerance_ms
    held = {place for e in facts if e.time <= limit for place in e.partitions}
    if found.place:
        return _is(found.place in held, f"{found.place} is not in {sorted(held)}")
    return _is(any(each.startswith("__consumer_offsets") for each in held), f"{sorted(held)}")


def _waits(found: f.OffsetPending | f.TransactionWaited, truth: KnownTruth) -> Answer:
    return _open_at(found.producer, found.line, truth)


def _open_at(producer: f.ProducerKey, line: RecordedRequest, truth: KnownTruth) -> Answer:
    """Whether a transaction was open, or being ended, at some time of an exchange."""
    if not producer.transactional_id:
        return U
    facts = truth.transactions[producer.transactional_id]
    span = line.time - truth.tolerance_ms, line.end + truth.tolerance_ms
    before = [e for e in facts if e.time < span[0]][-1:]
    states = {e.state for e in [*before, *(e for e in facts if span[0] <= e.time <= span[1])]}
    is_open = OPEN in states or any(each.startswith("Prepare") for each in states)
    return _is(is_open, f"states {sorted(states)} of {producer.name} at {span}")


def _dropped(found: f.OffsetAborted, truth: KnownTruth) -> Answer:
    """No transaction stored the offset: it was aborted, or its topic or group was gone."""
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    return _is(
        truth.find(facts, found.line.end, lambda e: e.state in ABORTED),
        f"{[(e.state, e.api, e.time) for e in facts][-6:]}",
    )


def _too_late(found: f.CommitTooLate, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    before = truth.find(facts, found.line.end, lambda _: True)
    is_open = before is not None and before.state == OPEN and before.time < found.line.time
    return _is(not is_open, "the transaction is open")


FINDINGS: dict[type[f.Finding], Callable[..., Answer]] = {
    f.Rebalance: _rebalance,
    f.GenerationBegan: _rebalance,
    f.MemberNotInNext: _not_in_next,
    f.MemberGone: _member("left"),
    f.MaxPollExceeded: _member("left"),
    f.MemberAway: _member("away"),
    f.MemberCame: _member("joined", "returned"),
    f.MemberCameBack: _came_back,
    f.OffsetCommitted: _committed,
    f.OffsetWentBack: _went_back,
    f.OffsetVanished: _vanished,
    f.EpochGiven: _epoch_given,
    f.EpochWentBack: lambda *_: (F, "an epoch never goes back"),
    f.ProducerFenced: _fenced,
    f.TransactionTimedOut: _timed_out,
    f.CoordinatorAborted: _aborted,
    f.TransactionEnded: _ended,
    f.TransactionBegan: _began,
    f.WrittenTwice: lambda *_: (F, "a cluster writes a batch once"),
    f.SequenceSkipped: lambda *_: (F, "a cluster accepts no gap"),
    f.OffsetReused: lambda *_: (F, "a cluster gives an offset once"),
    f.BrokerGone: _broker_gone,
    f.LeaderChanged: _led,
    f.IsrShrank: _shrank,
    f.IsrGrew: _grew,
    f.SampleTaken: _sampled,
    f.IsrSampleTaken: _sampled,
    f.LagSeen: _lag,
    f.ProducerBegan: _batch,
    f.BatchRepeated: _batch,
    f.MemberAdvanced: _advanced,
    f.TransactionTookIn: _took_in,
    f.TransactionWaited: _waits,
    f.OffsetPending: _waits,
    f.OffsetAborted: _dropped,
    f.CommitTooLate: _too_late,
}
"""Judges by type."""

SHOWN_BY_RESPONSE = frozenset(
    {
        *(f.MemberRefused, f.InstanceFenced, f.GroupRefused, f.CommitRefused, f.Refused),
        *(f.SequenceGap, f.DuplicateRefused, f.BatchRefused, f.ProducerReplaced, f.UnderMinIsr),
        *(f.SessionOpened, f.SessionEnded, f.SessionForgot, f.SessionLost, f.SessionOutOfTurn),
        *(f.SessionDenied, f.SessionChurn, f.ShareSessionOpened, f.ShareSessionClosed),
        *(f.ShareSessionLost, f.ShareSessionDenied, f.AcknowledgeRefused, f.RecordsRejected),
        *(f.RecordsReleased, f.RecordsDeliveredAgain, f.ClientThrottled, f.DeprecatedVersion),
        *(f.VersionRefused, f.StreamsStatus, f.OffsetMovedBack, f.Unread, f.SentForClient),
        *(f.EpochChanged, f.NewerEpochWrote, f.SequenceExpected, f.RepeatOf, f.SessionClosed),
        *(f.SessionEpochExpected, f.RecordsMoved, f.DeliveredBefore, f.DeliveryLimitReached),
    }
)
"""Findings and causes without a judge: the exchanges in them have all that they say."""

WITHOUT_FACTS = frozenset(
    {
        f.RecordsArchived,  # simulated groups of KIP-932 have a limit that they do not reach
        f.JoinWaited,  # its cause is judged
        f.LagGrew,
        f.CommitBeyondEnd,  # high watermarks are no facts
        f.LsoHeldBack,
        f.WatermarkDiffers,
        f.WatermarkDiffersBriefly,  # how far a follower had read is no fact
        f.IsrRequested,
        f.IsrAgainstRule,
        f.ControllerRemoved,
        f.ConnectionEnded,  # connections are no facts
        f.ProducerUnused,  # simulated producer ids do not expire
    }
)
"""Findings and causes without a judge because no fact covers them. They stay undecided."""


OF_WHOLE = frozenset(
    {
        *(f.OffsetCommitted, f.OffsetWentBack, f.OffsetVanished, f.EpochGiven, f.ProducerFenced),
        *(f.CoordinatorAborted, f.TransactionEnded, f.TransactionBegan),
        *(f.EpochBumped, f.TransactionAborted, f.TransactionTookIn, f.TransactionWaited),
        *(f.BeingFenced, f.ProducerIdReplaced, f.OpenTransactionOf),
        *(f.OffsetPending, f.OffsetAborted, f.CommitTooLate, f.OffsetsPending, f.LagSeen),
        *(f.ProducerBegan, f.BatchRepeated, f.SampleTaken, f.IsrSampleTaken, f.MemberAdvanced),
    }
)
"""What only whole facts about offsets and producers can judge."""


# Causes


def _cause(found: f.Finding, cause: f.Cause, truth: KnownTruth) -> Answer:
    if isinstance(found, f.Rebalance | f.GenerationBegan):
        return _of_rebalance(found, cause, truth)
    if type(cause) in OF_WHOLE and not truth.is_whole:
        return U
    judge = CAUSES.get(type(cause))
    return judge(found, cause, truth) if judge is not None else U


REBALANCED_BY: dict[type[f.Cause], frozenset[str]] = {
    f.MemberJoined: frozenset({"joined", "returned", "replaced"}),
    f.MemberLeft: frozenset({"left", "away"}),
    f.MemberDropped: frozenset({"expired", "replaced", "forgotten"}),
    f.MemberExpired: frozenset({"expired"}),
}


def _of_rebalance(
    found: f.Rebalance | f.GenerationBegan, cause: f.Cause, truth: KnownTruth
) -> Answer:
    is_modern = found.line.api.endswith("_GROUP_HEARTBEAT")
    former = found.former if is_modern and isinstance(found, f.Rebalance) else -1
    span = truth.window(found.group, found.number, found.line.end, former)
    if span is None:
        return U
    changes = truth.changes_in(
        found.group,
        span,
        *("joined", "returned", "left", "away", "expired", "replaced", "forgotten"),
    )
    if is_modern and truth.is_whole:  # each begins an epoch at once, but a static member may not
        began = {each.request for each in truth.generations[found.group]}
        changes = [each for each in changes if each.request in began]
    shown = [(each.change, each.member) for each in changes]
    if isinstance(cause, f.MemberJoinedAgain):
        again = truth.changes_in(found.group, span, "rejoined", "joined", "returned")
        others = [each for each in changes if each.member != cause.member]
        is_so = any(each.member == cause.member for each in again) or not others
        return _is(is_so, f"{shown} in generation {found.number}")
    wanted = REBALANCED_BY.get(type(cause))
    if wanted is None:
        return U
    member = getattr(cause, "member", "")
    return _is(
        any(each.member == member and each.change in wanted for each in changes),
        f"{member}: {shown} in generation {found.number}",
    )


def _begun_by(found: f.GenerationBegan, by: RecordedRequest, truth: KnownTruth) -> Answer:
    span = truth.window(found.group, found.number, found.line.end)
    if span is None:
        return U
    kinds = "joined", "rejoined", "returned", "left", "away", "replaced", "expired", "forgotten"
    changes = truth.changes_in(found.group, span, *kinds)
    clients = {name for each in changes for name in (each.of, each.client)}
    return _is(by.name in clients, f"{by.name}: {sorted(clients)} in {found.number}")


def _generation_changed(
    found: f.MemberRefused, cause: f.GenerationChanged, truth: KnownTruth
) -> Answer:
    numbers = truth.numbers_about(found.group, found.line.end)
    return _is(cause.number in numbers and cause.requested != cause.number, f"is {numbers}")


def _under_way(found: f.MemberRefused, cause: f.RebalanceUnderWay, truth: KnownTruth) -> Answer:
    changes = list(truth.is_rebalancing(found.group, found.line.end))
    if not changes:
        return U
    names = {each.client or each.of for each in changes} | {each.of for each in changes}
    joins = truth.members_of_next(found.group, found.line.end)
    names |= {each.of for each in truth.changes[found.group] if each.member in joins}
    return _is(cause.by.name in names, f"changes: {[(e.change, e.of) for e in changes]}")


def _gone(*kinds: str) -> Callable[..., Answer]:
    def judge(
        found: f.MemberRefused, cause: f.MemberExpired | f.MemberHasLeft, truth: KnownTruth
    ) -> Answer:
        limit = found.line.end + truth.tolerance_ms
        facts = [e for e in truth.changes[found.group] if e.member == cause.member]
        ends = [e.change for e in facts if e.time <= limit]
        return _is({*ends} & {*kinds}, f"{cause.member}: {ends}")

    return judge


def _held(found: f.MemberRefused, cause: f.InstanceHeld, truth: KnownTruth) -> Answer:
    members = truth.members_during(found.group, found.line.time, found.line.end)
    holders = [each.member for each in members if each.instance == cause.instance]
    return _is(cause.member in holders, f"{cause.instance} is held by {holders}")


def _has_members(found: f.CommitRefused, _: f.GroupHasMembers, truth: KnownTruth) -> Answer:
    members = truth.members_during(found.group, found.line.time, found.line.end)
    return _is(members, "it is empty")


def _epoch_bumped(found: f.ProducerFenced, cause: f.EpochBumped, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    given = truth.find(
        facts, cause.by.end, lambda e: e.epoch == cause.epoch and e.client in ("", cause.by.name)
    )
    return _is(given, f"{[(e.epoch, e.client, e.api) for e in facts][-6:]}")


def _abort_of(found: f.ProducerFenced, cause: f.TransactionAborted, truth: KnownTruth) -> Answer:
    producer = getattr(found, "producer", None)
    if producer is None or not producer.transactional_id:
        return U
    facts = truth.transactions[producer.transactional_id]
    aborts = [e for e in facts if e.state in ABORTED and e.time <= cause.marker.end + 5_000]
    shown = f"{[(e.state, e.client, e.api, e.is_timeout, e.time) for e in aborts][-5:]}"
    if cause.is_timeout:
        return _is(any(e.is_timeout for e in aborts), shown)
    if cause.requested is not None:
        names = {e.client for e in aborts}
        return _is(cause.requested.name in names or cause.requested.is_own, shown)
    return _is(aborts, shown)


def _overdue(found: f.ProducerFenced, _: f.TransactionOverdue, truth: KnownTruth) -> Answer:
    name = found.producer.transactional_id
    if not name:
        return U
    facts = truth.transactions[name]
    ended = truth.find(facts, found.line.end, lambda e: e.is_timeout)
    return _is(ended, f"{[(e.state, e.api, e.is_timeout) for e in facts][-5:]}")


def _evicted(found: f.SessionLost, cause: f.SessionEvicted, truth: KnownTruth) -> Answer:
    is_restarted = truth.is_broker_restarted(found.line.broker, cause.used.time, found.line.end)
    if not is_restarted:
        return F, "no cache was full, and the broker was there"
    return _is(not cause.openers, f"broker {found.line.broker} was away: nobody evicted it")


def _producer_replaced(
    found: f.ProducerReplaced, cause: f.ProducerIdReplaced, truth: KnownTruth
) -> Answer:
    facts = truth.transactions[found.producer.transactional_id]
    given = truth.find(facts, cause.by.end, lambda e: e.producer == cause.producer_id)
    return _is(given, f"{[(e.producer, e.time) for e in facts][-6:]}")


def _unused(found: f.JoinWaited, cause: f.MemberIdUnused, truth: KnownTruth) -> Answer:
    joined = [e for e in truth.changes[found.group] if e.member == cause.member]
    before = [e.change for e in joined if e.time <= found.line.end - truth.tolerance_ms]
    return _is(not before, f"{cause.member}: {before}")


CAUSES: dict[type[f.Cause], Callable[..., Answer]] = {
    f.GenerationChanged: _generation_changed,
    f.RebalanceUnderWay: _under_way,
    f.MemberExpired: _gone("expired"),
    f.MemberHasLeft: _gone("left", "away"),
    f.MemberWentAway: _gone("away"),
    f.InstanceHeld: _held,
    f.GroupHasMembers: _has_members,
    f.EpochBumped: _epoch_bumped,
    f.TransactionAborted: _abort_of,
    f.TransactionOverdue: _overdue,
    f.SessionEvicted: _evicted,
    f.OffsetsPending: lambda found, cause, truth: _open_at(cause.producer, found.line, truth),
    f.OpenTransactionOf: lambda found, cause, truth: _open_at(cause.producer, found.line, truth),
    f.BeingFenced: lambda found, cause, truth: _open_at(found.producer, cause.by, truth),
    f.ProducerIdReplaced: _producer_replaced,
    f.MemberIdUnused: _unused,
    f.EpochNeverGiven: lambda *_: (F, "every epoch was given by a response"),
}
