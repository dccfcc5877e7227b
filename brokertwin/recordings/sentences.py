"""Sentences for findings and causes. Machines make none; audit, explain and live share these."""

from collections import Counter

from brokertwin.protocol.errors import error_name
from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.bodies import records_between
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.transactions import OpenTransaction
from brokertwin.recordings.history.words import clock, listed, names_of
from brokertwin.recordings.rules import RULES, Rule
from brokertwin.recordings.rules.findings import NEW_EPOCHS, OF_FINDINGS, REMOVED
from brokertwin.wording import counted

UNEXPLAINED_EPOCH = (
    "The recording does not show the newer epoch. The transaction may have timed out"
    " (transaction.timeout.ms), or another producer may have got the epoch in a part that"
    " is not recorded."
)

VANISHED = {
    f.Vanishing.OFFSET_DELETE: "the offset of {} is deleted",
    f.Vanishing.GROUP_DELETED: "the offset of {} is deleted with the group",
    f.Vanishing.TOPIC_DELETED: "the offset of {} is deleted with the topic",
    f.Vanishing.NOT_FETCHED: "{} has no offset: it expired, or was deleted without a record of it",
}


def rule_of_code(code: int) -> Rule:
    """The description of an error; its name if the table has none."""
    name = error_name(code)
    return RULES.get(code) or Rule(f"The broker refused it: {name}.", "Errors", f"Look up {name}.")


def advice(finding: f.Finding) -> Rule:
    """Kafka's rule for a finding, its source, and what to do."""
    if any(isinstance(each, f.ControllerRemoved) for each in finding.causes):
        return REMOVED
    if isinstance(finding, f.Rebalance) and finding.is_epoch:
        return NEW_EPOCHS
    return OF_FINDINGS.get(finding.kind) or rule_of_code(finding.error)


def cause(finding: f.Finding) -> str:
    """The causes in sentences; "" if none is known."""
    match finding:
        case f.RecordsDeliveredAgain():
            return _again(finding)
        case f.RecordsRejected():
            return f"rejects {_records(finding)}"
        case f.BatchRepeated(causes=(f.RepeatOf(by=by),)):
            return f"a repeat of {by.words}: it is in the log once"
        case f.Rebalance() | f.MemberNotInNext() | f.TransactionTimedOut() | f.CoordinatorAborted():
            return ""
        case f.ProducerFenced(causes=()) | f.CommitTooLate(causes=()):
            return UNEXPLAINED_EPOCH
        case f.ProducerReplaced(causes=()):
            return (
                "The recording does not show why the coordinator does not know the producer id:"
                " another producer got a new one, or the transactional id expired."
            )
    return " ".join(filter(None, (because(each, finding.line) for each in finding.causes)))


def because(why: f.Cause, line: RecordedRequest) -> str:
    """A cause of a refusal of the request `line` in a sentence."""
    client = f"client {line.name}"
    match why:
        case f.GenerationChanged():
            return (
                f"The request is of generation {why.requested}; {why.number} is there since"
                f" {why.by.words}."
            )
        case f.EpochChanged():
            return (
                f"The request has member epoch {why.requested}; the member has epoch {why.number}"
                f" since {why.by.words}."
            )
        case f.RebalanceUnderWay():
            return f"A rebalance is under way: {why.by.words}."
        case f.InstanceHeld():
            return f"{why.instance} is held by {why.by.words}."
        case f.MemberHasLeft():
            reason = f" ({why.reason})" if why.reason else ""
            who = f"The member {why.member} of this client" if why.is_by_client else "The member"
            return f"{who} has left: {why.by.words}{reason}."
        case f.MemberWentAway():
            return (
                f"The static member is away: {why.by.words}. Until its instance joins again it has"
                " epoch -2."
            )
        case f.MemberExpired():
            return _expired(why)
        case f.GroupHasMembers():
            return (
                "Without a member id offsets are taken only while the group has no members; it has"
                f" one by {why.member.words}."
            )
        case f.OffsetsPending():
            return (
                f"An open transaction of {why.producer.name} has pending offsets: {why.by.words}."
            )
        case f.EpochBumped():
            has = f"{client} has {why.own}" if why.own >= 0 else f"{client} has another one"
            return f"{why.by.words} bumped the epoch to {why.epoch}; {has}."
        case f.EpochNeverGiven():
            return (
                f"{client} has epoch {why.own}, which no recorded response gave: the last one is"
                f" {why.epoch}, by {why.by.words}."
            )
        case f.BeingFenced():
            return (
                f"{why.by.words} has fenced it. That request gets"
                " 51 CONCURRENT_TRANSACTIONS until the open transaction is aborted."
            )
        case f.TransactionAborted():
            text = aborted(why)
            return f"{text[0].upper()}{text[1:]}."
        case f.TransactionOverdue():
            return (
                f"The transaction had been open for {why.open_ms} ms, longer than"
                f" transaction.timeout.ms ({why.timeout_ms} ms): the coordinator has probably"
                " aborted it. The recording has no marker of that."
            )
        case f.ProducerIdReplaced():
            return (
                f"{why.by.words} gave the transactional id the new producer id"
                f" {why.producer_id}: the former one is not valid any more."
            )
        case f.ProducerUnused():
            days = why.unused_ms / 86_400_000
            return (
                f"The producer was not used for {days:.1f} days, since {why.last.words}: its"
                " transactional id has probably expired (transactional.id.expiration.ms)."
            )
        case f.NewerEpochWrote():
            return (
                f"{why.by.words} wrote to {why.partition.place} in epoch {why.epoch}; this is"
                f" {why.own}."
            )
        case f.SequenceExpected():
            return _out_of_order(why)
        case f.SessionClosed():
            what = "The session was closed" if line.api == "FETCH" else "The member has closed it"
            return f"{what}: {why.by.words}."
        case f.SessionEvicted():
            others = Counter(why.openers).most_common()
            names = ", ".join(f"client {name} ({count})" for name, count in others)
            used = f"It was used last by {why.used.words}"
            if not names:
                return (
                    f"{used}. Since then it made room for another"
                    " (max.incremental.fetch.session.cache.slots), or its broker was started again."
                )
            return (
                f"{used}, and has made room for another since"
                " (max.incremental.fetch.session.cache.slots). Sessions that were opened in"
                f" between: {names}."
            )
        case f.SessionEpochExpected():
            return (
                f"The request has epoch {why.requested}; after {why.used.words} it has to be"
                f" {why.expected}."
            )
        case f.ConnectionEnded():
            return (
                f"It was opened by {why.opened.words}, and has ended since: its connection is"
                " gone, or its broker was started again."
            )
        case f.RecordsMoved():
            span = _span(why.first, why.last)
            return f"{why.partition.place} {span} went to member {why.member}: {why.by.words}."
        case f.DeliveryLimitReached():
            by = f", the last time by {why.last.words}" if why.last is not None else ""
            return f"They were delivered {why.count} times{by}."
        case f.OpenTransactionOf():
            return f"{why.producer.name} has an open transaction since {why.began.words}."
    return ""


def _expired(why: f.MemberExpired) -> str:
    last = f"its last request is {why.last.words}"
    if why.silent_ms >= 0 and 0 <= why.session_timeout_ms < why.silent_ms:
        return (
            f"The session of member {why.member} has ended: {last}, {why.silent_ms / 1000:.1f} s"
            f" before; session.timeout.ms is {why.session_timeout_ms}."
        )
    if why.last.api.endswith("_GROUP_HEARTBEAT"):
        limits = (
            "the session timeout of the broker, or did not revoke partitions within its rebalance"
            " timeout"
        )
    else:
        limits = "session.timeout.ms, or did not join again within max.poll.interval.ms"
    return f"The coordinator removed member {why.member}: {last}. It was silent for {limits}."


def _out_of_order(why: f.SequenceExpected) -> str:
    if why.by is None:
        return (
            f"The batch begins at sequence {why.first}, and the recording has none of producer"
            f" {why.producer_id} before it in {why.partition.place}: a new producer begins at 0."
        )
    if why.epoch > why.last_epoch:
        return (
            f"The epoch is new ({why.epoch} after {why.last_epoch}), so the batch has to begin at"
            f" 0; it begins at {why.first}."
        )
    ended = f"{why.partition.place} ends at sequence {why.last}, by {why.by.words}"
    missing = records_between(why.last, why.first)
    if missing is None:
        return (
            f"It goes back: {ended}; this batch begins at {why.first}, and is not one of the last"
            " five."
        )
    return (
        f"{ended}; this batch begins at {why.first}: {missing} records in between are not in the"
        " log."
    )


def aborted(why: f.TransactionAborted) -> str:
    """The cause and the time of an abort, as far as they are known."""
    at = f"at {clock(why.marker.time)} ({why.marker.place})"
    if why.requested is not None:
        return f"{why.requested.words} aborted the transaction; its marker came {at}"
    said_ = f"the coordinator, broker {why.coordinator}, aborted the transaction {at}"
    if why.is_timeout:
        return (
            f"{said_}, {why.lasted_ms} ms after it began: it was open for longer than"
            f" transaction.timeout.ms ({why.timeout_ms} ms)"
        )
    return f"{said_}; the recording does not show why"


def rebalance_cause(why: f.Cause) -> str:
    """What a client did to begin a rebalance, in one or two words."""
    match why:
        case f.MemberJoined():
            return "joined"
        case f.MemberJoinedAgain():
            return "joined again"
        case f.MemberLeft():
            return "left"
        case f.MemberExpired():
            return "expired"
    return "dropped"


def said(finding: f.Finding) -> str:
    """The content of a finding in a few words."""
    match finding:
        case f.GenerationBegan():
            number = finding.number
            if finding.by_request is None:
                return f"generation {number} begins; the request that began it is not known"
            by = "this request" if finding.by_request == finding.line else finding.by_request.words
            return f"generation {number} begins, by {by}"
        case f.Rebalance():
            words = []
            for why in finding.causes:
                if isinstance(why, f.RebalanceCause):
                    reason = getattr(why, "reason", "")
                    text = f"{why.client} {rebalance_cause(why)}"
                    words.append(text + (f": {reason}" if reason else ""))
            causes = ", ".join(dict.fromkeys(words))
            noun = "epoch" if finding.is_epoch else "generation"
            return f"{noun} {finding.number}" + (f": {causes}" if causes else "")
        case f.JoinWaited(causes=(f.MemberIdUnused(member=member, by=got),)):
            return (
                f"waited {finding.waited_ms / 1000:.1f} s for member id {member}, handed out to"
                f" {got.words} and never used"
            )
        case f.MemberCameBack():
            seconds = (finding.line.time - finding.left.end) / 1000
            reason = f" ({finding.reason})" if finding.reason else ""
            text = f"left by {finding.left.place}{reason}, and came back after {seconds:.1f} s"
            if finding.max_poll_ms >= 0 and not reason:
                text += (
                    f"; its rebalance timeout (max.poll.interval.ms) is {finding.max_poll_ms} ms"
                )
            return text
        case f.MemberGone():
            reason = f": {finding.reason}" if finding.reason else ""
            return f"member {finding.member} has left{reason}"
        case f.MemberAway():
            return (
                f"static member {finding.member} is away (epoch -2): instance {finding.instance}"
                " keeps its partitions until its session ends"
            )
        case f.MaxPollExceeded():
            return f"member {finding.member} left: {finding.reason}"
        case f.MemberCame():
            return f"member {finding.member} joins in epoch {finding.epoch}"
        case f.MemberAdvanced():
            return f"member {finding.member} comes from epoch {finding.former} to {finding.epoch}"
        case f.StreamsStatus():
            return f"status {finding.code_of_status}: {finding.detail}"
        case f.MemberNotInNext():
            return f"not in generation {finding.number}: {finding.member}"
        case f.InstanceFenced() | f.MemberRefused():
            held = [each for each in finding.causes if isinstance(each, f.InstanceHeld)]
            text = f"{finding.line.api}: {error_name(finding.code)}"
            return text + "".join(
                f"; {each.instance} is held by {each.by.words}" for each in held[:1]
            )
        case f.CommitRefused():
            return f"member {finding.member or '(none)'}, generation {finding.epoch}"
        case f.OffsetWentBack():
            place, former = finding.partition.place, finding.former_line.words
            return f"{place} from {finding.former} ({former}) to {finding.offset}"
        case f.OffsetMovedBack():
            place, former = finding.partition.place, finding.former_line.words
            return f"{place} goes back from {finding.former} ({former}) to {finding.offset}"
        case f.OffsetVanished():
            return VANISHED[finding.why].format(finding.partition.place)
        case f.OffsetPending():
            return (
                f"{finding.partition.place} at {finding.offset} is pending until the transaction of"
                f" {finding.producer.name} commits"
            )
        case f.OffsetAborted():
            return (
                f"{finding.partition.place} at {finding.offset} is dropped with the aborted"
                f" transaction of {finding.producer.name}"
            )
        case f.LagGrew():
            return f"committed {finding.offset}, at least {finding.least} behind"
        case f.CommitBeyondEnd():
            return f"committed {finding.offset}, {finding.beyond} beyond the log end"
    return _said_of_producer(finding) or _said_of_others(finding)


def _said_of_producer(finding: f.Finding) -> str:
    match finding:
        case f.EpochGiven():
            if finding.former < 0:
                return ""
            return (
                f"bumped epoch {finding.former} of producer {finding.producer_id}"
                f" to {finding.epoch}"
            )
        case f.EpochWentBack():
            return f"epoch {finding.epoch} after {finding.former} ({finding.former_line.words})"
        case f.CoordinatorAborted(causes=(f.TransactionAborted() as why,)):
            return aborted(why)
        case f.TransactionTimedOut(causes=(f.TransactionAborted() as why,), code=0):
            return aborted(why)
        case f.TransactionTimedOut():
            error = f"{finding.code} {error_name(finding.code)}"
            for overdue in finding.causes:
                if isinstance(overdue, f.TransactionOverdue):
                    return (
                        f"commit refused with {error} after {overdue.open_ms} ms;"
                        f" transaction.timeout.ms is {overdue.timeout_ms} ms"
                    )
            return f"{finding.line.api} comes after it: {error}"
        case f.ProducerFenced():
            text = (
                f"has epoch {finding.epoch}" if finding.epoch >= 0 else "its epoch is not recorded"
            )
            for abort in finding.causes:
                if isinstance(abort, f.TransactionAborted):
                    return f"{text}; {aborted(abort)}"
            if finding.newer:
                text += f"; {finding.newer[-1].epoch} since {finding.newer[-1].by.words}"
            return text
        case f.ProducerReplaced():
            return f"has producer id {finding.producer_id}, epoch {finding.epoch}"
        case f.TransactionBegan():
            return f"transaction {finding.number} begins"
        case f.TransactionTookIn():
            of = finding.place or f"offsets of group {finding.group}"
            return f"adds {'partition ' if finding.place else ''}{of}"
        case f.TransactionWaited():
            return f"transaction {finding.number} is still open; the coordinator aborts it first"
        case f.TransactionEnded():
            became = "committed" if finding.is_committed else "aborted"
            if finding.began is None:
                return f"the recording shows no begin of a transaction: {became} again, or empty"
            return f"transaction {finding.number} is {became} {_lasted(finding)}"
        case f.SequenceSkipped():
            return f"{_batch(finding)}, where {finding.expected} was due"
        case f.OffsetReused():
            return f"producer {finding.producer}: {_batch(finding)}"
        case f.BatchRepeated() | f.WrittenTwice():
            return _batch(finding)
        case f.ProducerBegan():
            of = f"producer {finding.producer}"
            if finding.former < 0:
                return f"{of} writes its first batch here"
            return (
                f"{of} comes with epoch {finding.epoch}; before it had {finding.former}"
                f" (client {finding.former_client})"
            )
        case f.SequenceGap() | f.DuplicateRefused():
            return _missing(finding)
    return ""


def _said_of_others(finding: f.Finding) -> str:
    match finding:
        case f.SessionOpened():
            return "opens the session"
        case f.SessionEnded():
            return "closes the session" + (f", and opens {finding.other}" if finding.other else "")
        case f.SessionForgot():
            return f"forgets {finding.count} partitions"
        case f.SessionOutOfTurn():
            return f"sends epoch {finding.epoch}"
        case f.SessionLost():
            for why in finding.causes:
                if isinstance(why, f.SessionClosed):
                    return f"session {finding.session} was closed by {why.by.words}"
                if isinstance(why, f.SessionEvicted):
                    used = f"session {finding.session}, used last at {why.used.place}"
                    return f"{used}; {len(why.openers)} were opened since" if why.openers else used
            return f"session {finding.session}, seen here first"
        case f.LeaderChanged():
            return f"broker {finding.leader} leads in epoch {finding.epoch}"
        case f.IsrShrank():
            return f"broker {finding.broker} left"
        case f.IsrGrew():
            return f"broker {finding.broker} came back"
        case f.WatermarkDiffers() | f.WatermarkDiffersBriefly():
            of = finding.difference
            return f"broker {of.leader} told {of.reported}, by the rule it is {of.derived}"
        case f.IsrRequested() | f.IsrAgainstRule():
            change = finding.change
            verb = "in" if change.is_added else "out"
            why_not = f", and {breach(change.why)}" if change.why else ""
            return f"leader {change.leader} wanted broker {change.broker} {verb}{why_not}"
        case f.SampleTaken() | f.IsrSampleTaken():
            return moved(finding.sample.why)
        case f.LsoHeldBack():
            readers = (
                f"; {names_of(finding.readers)} read only committed" if finding.readers else ""
            )
            return (
                f"the last stable offset stays at {finding.stable}, {finding.behind} behind the"
                f" high watermark{readers}"
            )
        case f.ClientThrottled():
            return (
                f"{counted(finding.count, 'response')} to {', '.join(finding.apis)}, up to"
                f" {finding.longest_ms} ms"
            )
        case f.VersionRefused():
            requests = counted(finding.count, "request")
            return f"{finding.api} v{finding.version}, {requests} without a response"
        case f.DeprecatedVersion():
            return f"{finding.api} v{finding.version}, {counted(finding.count, 'request')}"
        case f.BrokerGone():
            return _gone(finding)
        case f.AcknowledgeRefused():
            all_of = f"{finding.partition.place} {finding.first_offset} to {finding.last_offset}"
            return f"{all_of} of {finding.member}" + "".join(
                f"; {why.member} got {why.first} to {why.last} at {why.by.place}"
                for why in finding.causes
                if isinstance(why, f.RecordsMoved)
            )
        case f.RecordsRejected():
            all_of = f"{finding.partition.place} {finding.first_offset} to {finding.last_offset}"
            return f"{all_of} by {finding.member}"
        case f.RecordsReleased():
            return f"gives back {_records(finding)}"
        case f.RecordsArchived():
            return f"{_records(finding)} after delivery {finding.count}"
        case f.RecordsDeliveredAgain():
            return _delivered_again(finding)
        case f.ShareSessionOpened():
            return "opens a share session"
        case f.ShareSessionClosed():
            return "closes its share session, and gives back what it has"
        case f.ShareSessionLost() | f.ShareSessionDenied():
            return f"group {finding.group}, member {finding.member}, epoch {finding.epoch}"
    return ""


def held(finding: f.LsoHeldBack) -> str:
    """Which transaction held back the last stable offset, for how long, and who waits."""
    seconds = finding.held_ms / 1000
    text = f"the last stable offset stayed at {finding.stable} for {seconds:.1f} s"
    if finding.ended is None:
        text = f"the last stable offset stays at {finding.stable}, {seconds:.1f} s so far"
    text += f", {counted(finding.behind, 'record')} behind the high watermark"
    holders = [each for each in finding.causes if isinstance(each, f.OpenTransactionOf)]
    for each in holders:
        since = f"since {each.began.words}"
        until = f" until {finding.ended.words}" if finding.ended is not None else ""
        text += f": a transaction of {each.producer.name} was open {since}{until}"
    if not holders:
        text += "; the recording does not show the transaction"
    if finding.readers:
        text += f"; waiting for it: {names_of(finding.readers)} (isolation.level=read_committed)"
    return text


def _gone(finding: f.BrokerGone) -> str:
    how = "shut down" if finding.is_shutdown else "was gone"
    since = f"broker {finding.broker} {how} after {clock(finding.last_sign)}"
    if finding.back is None:
        return f"{since}; the recording does not show its return"
    if finding.is_shutdown:
        return f"{since}, and was back at {clock(finding.back)}"
    return (
        f"broker {finding.broker} was gone from {clock(finding.last_sign)} to {clock(finding.back)}"
    )


def _batch(finding: f.BatchFinding) -> str:
    return (
        f"sequences {finding.first_sequence} to {finding.last_sequence} of epoch {finding.epoch} at"
        f" {finding.offset}"
    )


def _missing(finding: f.BatchFinding) -> str:
    """The sequences between a refused batch and the last one that was written."""
    if finding.partition is None:
        return ""
    text = f"begins at {finding.first_sequence} of epoch {finding.epoch}"
    for why in finding.causes:
        if isinstance(why, f.NewerEpochWrote):
            return f"{text}, after epoch {why.epoch}"
        if isinstance(why, f.SequenceExpected) and why.by is not None:
            if why.last_epoch != why.epoch:
                return f"{text}, after epoch {why.last_epoch}"
            missing = records_between(why.last, why.first)
            if missing is None:
                return f"{text}, and {why.last} is written"
            return f"{text}, {missing} records after {why.last}"
    return f"{text}; nothing recorded before it"


def moved(why: f.SampleCause) -> str:
    """What changed the state of a partition."""
    match why:
        case f.LeaderNamed():
            leader = str(why.leader) if why.leader >= 0 else "no broker"
            return f"{why.by} names it: {leader} leads in epoch {why.epoch}"
        case f.InSyncNamed():
            by = f"{why.by} removed broker {listed(why.removed)}" if why.removed else why.by
            return f"{by}: in sync are {[*why.isr]}"
        case f.ReplicaFetched():
            return f"broker {why.broker} fetches from {why.offset}"
        case f.RecordsAppended():
            return f"records from offset {why.offset} on"
    return "adopted from a response" if why.is_adopted else "its high watermark was reported"


def breach(why: f.JoinedBelow | f.LeftEarly) -> str:
    """The rule of in-sync sets that a request breaks."""
    if isinstance(why, f.JoinedBelow):
        return f"its LEO is {why.end}"
    return f"it was caught up {why.behind_ms:.0f} ms before"


def transaction(ended: f.TransactionEnded) -> str:
    """An ended transaction in one line: contents, outcome, and the request that ended it."""
    became = "committed" if ended.is_committed else "aborted"
    of, held = _transaction(ended.number, ended.producer_id, ended.epoch), _held(ended)
    for why in ended.causes:
        if isinstance(why, f.TransactionAborted):
            return f"{of}: {aborted(why)}; {held}"
    return f"{of}: {became} {_lasted(ended, f' by {ended.line.words}')}; {held}"


def _lasted(ended: f.TransactionEnded, by: str = "") -> str:
    if ended.certainty is f.Certainty.UNKNOWN:
        return f"after at most {ended.lasted_ms} ms{by or ' by this request'}, or by its time-out"
    is_told = by or ended.is_requested or ended.causes
    # the abort came before the response to the InitProducerId that waited for it
    within = "after" if ended.is_requested or ended.causes else "within"
    return f"{within} {ended.lasted_ms} ms{by if is_told else ', without an EndTxn'}"


def open_transaction(opened: OpenTransaction) -> str:
    of = _transaction(opened.number, opened.producer_id, opened.epoch)
    return f"{of}: open since {opened.began.words}; {_held(opened)}"


def _transaction(number: int, producer_id: int, epoch: int) -> str:
    return f"transaction {number}, producer {producer_id} epoch {epoch}"


def _held(of: f.TransactionEnded | OpenTransaction) -> str:
    named = sorted(of.places.items(), key=lambda each: _sorted_place(each[0]))
    offsets = [f"offsets of group {name}" for name in of.groups]
    return ", ".join([*(f"{at}{_batches(n)}" for at, n in named), *offsets]) or "nothing"


def _sorted_place(place: str) -> tuple[str, int]:
    topic, _, partition = place.rpartition("-")
    return topic, int(partition)


def _batches(count: int) -> str:
    """The number of known batches; a request log without their headers knows none."""
    return f" ({count} batch{'es' * (count > 1)})" if count else ""


def _records(finding: f.RecordsFinding) -> str:
    return f"{finding.partition.place} {_span(finding.first_offset, finding.last_offset)}"


def _span(first: int, last: int) -> str:
    """`7`, `7 to 9`."""
    return str(first) if first == last else f"{first} to {last}"


def _delivered_again(finding: f.RecordsDeliveredAgain) -> str:
    text = f"{_records(finding)} to {finding.member}"
    text += f" for the {finding.count}th time" if finding.count > 3 else ""
    for why in finding.causes:
        if isinstance(why, f.DeliveredBefore):
            released = why.released
            became = f"given back by {released.words}" if released else "not acknowledged"
            text += f"; before, {why.member} got them at {why.by.place}, {became}"
    return text


def _again(finding: f.RecordsDeliveredAgain) -> str:
    text = f"{_records(finding)}: delivery {finding.count}"
    for why in finding.causes:
        if isinstance(why, f.DeliveredBefore):
            text += f"; before, {why.member} got it by {why.by.words}"
            released = why.released
            in_time = ", and did not acknowledge it in time"
            text += f", and gave it back by {released.words}" if released else in_time
    return text
