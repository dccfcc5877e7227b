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


def advice(found: f.Finding) -> Rule:
    """Kafka's rule for a finding, its source, and what to do."""
    if any(isinstance(each, f.ControllerRemoved) for each in found.causes):
        return REMOVED
    if isinstance(found, f.Rebalance) and found.is_epoch:
        return NEW_EPOCHS
    return OF_FINDINGS.get(found.kind) or rule_of_code(found.error)


def cause(found: f.Finding) -> str:
    """The causes in sentences; "" if none is known."""
    match found:
        case f.RecordsDeliveredAgain():
            return _again(found)
        case f.RecordsRejected():
            return f"rejects {_records(found)}"
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
    return " ".join(filter(None, (because(each, found.line) for each in found.causes)))


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


def said(found: f.Finding) -> str:
    """The content of a finding in a few words."""
    match found:
        case f.GenerationBegan():
            number = found.number
            if found.by_request is None:
                return (
                    f"generation {number} begins: a member that was there joined again, or the"
                    " session of one ended"
                )
            by = "this request" if found.by_request == found.line else found.by_request.words
            return f"generation {number} begins, by {by}"
        case f.Rebalance():
            words = []
            for why in found.causes:
                if isinstance(why, f.RebalanceCause):
                    reason = getattr(why, "reason", "")
                    text = f"{why.client} {rebalance_cause(why)}"
                    words.append(text + (f": {reason}" if reason else ""))
            causes = ", ".join(dict.fromkeys(words))
            noun = "epoch" if found.is_epoch else "generation"
            return f"{noun} {found.number}" + (f": {causes}" if causes else "")
        case f.JoinWaited(causes=(f.MemberIdUnused(member=member, by=got),)):
            return (
                f"waited {found.waited_ms / 1000:.1f} s for member id {member}, handed out to"
                f" {got.words} and never used"
            )
        case f.MemberCameBack():
            seconds = (found.line.time - found.left.end) / 1000
            reason = f" ({found.reason})" if found.reason else ""
            text = f"left by {found.left.place}{reason}, and came back after {seconds:.1f} s"
            if found.max_poll_ms >= 0 and not reason:
                text += f"; its rebalance timeout (max.poll.interval.ms) is {found.max_poll_ms} ms"
            return text
        case f.MemberGone():
            reason = f": {found.reason}" if found.reason else ""
            return f"member {found.member} has left{reason}"
        case f.MemberAway():
            return (
                f"static member {found.member} is away (epoch -2): instance {found.instance} keeps"
                " its partitions until its session ends"
            )
        case f.MaxPollExceeded():
            return f"member {found.member} left: {found.reason}"
        case f.MemberCame():
            return f"member {found.member} joins in epoch {found.epoch}"
        case f.MemberAdvanced():
            return f"member {found.member} comes from epoch {found.former} to {found.epoch}"
        case f.StreamsStatus():
            return f"status {found.code_of_status}: {found.detail}"
        case f.MemberNotInNext():
            return f"not in generation {found.number}: {found.member}"
        case f.InstanceFenced() | f.MemberRefused():
            held = [each for each in found.causes if isinstance(each, f.InstanceHeld)]
            text = f"{found.line.api}: {error_name(found.code)}"
            return text + "".join(
                f"; {each.instance} is held by {each.by.words}" for each in held[:1]
            )
        case f.CommitRefused():
            return f"member {found.member or '(none)'}, generation {found.epoch}"
        case f.OffsetWentBack():
            place, former = found.partition.place, found.former_line.words
            return f"{place} from {found.former} ({former}) to {found.offset}"
        case f.OffsetMovedBack():
            place, former = found.partition.place, found.former_line.words
            return f"{place} goes back from {found.former} ({former}) to {found.offset}"
        case f.OffsetVanished():
            return VANISHED[found.why].format(found.partition.place)
        case f.OffsetPending():
            return (
                f"{found.partition.place} at {found.offset} is pending until the transaction of"
                f" {found.producer.name} commits"
            )
        case f.OffsetAborted():
            return (
                f"{found.partition.place} at {found.offset} is dropped with the aborted transaction"
                f" of {found.producer.name}"
            )
        case f.LagGrew():
            return f"committed {found.offset}, at least {found.least} behind"
        case f.CommitBeyondEnd():
            return f"committed {found.offset}, {found.beyond} beyond the log end"
    return _said_of_producer(found) or _said_of_others(found)


def _said_of_producer(found: f.Finding) -> str:
    match found:
        case f.EpochGiven():
            if found.former < 0:
                return ""
            return f"bumped epoch {found.former} of producer {found.producer_id} to {found.epoch}"
        case f.EpochWentBack():
            return f"epoch {found.epoch} after {found.former} ({found.former_line.words})"
        case f.CoordinatorAborted(causes=(f.TransactionAborted() as why,)):
            return aborted(why)
        case f.TransactionTimedOut(causes=(f.TransactionAborted() as why,), code=0):
            return aborted(why)
        case f.TransactionTimedOut():
            error = f"{found.code} {error_name(found.code)}"
            for overdue in found.causes:
                if isinstance(overdue, f.TransactionOverdue):
                    return (
                        f"commit refused with {error} after {overdue.open_ms} ms;"
                        f" transaction.timeout.ms is {overdue.timeout_ms} ms"
                    )
            return f"{found.line.api} comes after it: {error}"
        case f.ProducerFenced():
            text = f"has epoch {found.epoch}" if found.epoch >= 0 else "its epoch is not recorded"
            for abort in found.causes:
                if isinstance(abort, f.TransactionAborted):
                    return f"{text}; {aborted(abort)}"
            if found.newer:
                text += f"; {found.newer[-1].epoch} since {found.newer[-1].by.words}"
            return text
        case f.ProducerReplaced():
            return f"has producer id {found.producer_id}, epoch {found.epoch}"
        case f.TransactionBegan():
            return f"transaction {found.number} begins"
        case f.TransactionTookIn():
            of = found.place or f"offsets of group {found.group}"
            return f"adds {'partition ' if found.place else ''}{of}"
        case f.TransactionWaited():
            return f"transaction {found.number} is still open; the coordinator aborts it first"
        case f.TransactionEnded():
            became = "committed" if found.is_committed else "aborted"
            if found.began is None:
                return f"the recording shows no begin of a transaction: {became} again, or empty"
            return f"transaction {found.number} is {became} {_lasted(found)}"
        case f.SequenceSkipped():
            return f"{_batch(found)}, where {found.expected} was due"
        case f.OffsetReused():
            return f"producer {found.producer}: {_batch(found)}"
        case f.BatchRepeated() | f.WrittenTwice():
            return _batch(found)
        case f.ProducerBegan():
            of = f"producer {found.producer}"
            if found.former < 0:
                return f"{of} writes its first batch here"
            return (
                f"{of} comes with epoch {found.epoch}; before it had {found.former}"
                f" (client {found.former_client})"
            )
        case f.SequenceGap() | f.DuplicateRefused():
            return _missing(found)
    return ""


def _said_of_others(found: f.Finding) -> str:
    match found:
        case f.SessionOpened():
            return "opens the session"
        case f.SessionEnded():
            return "closes the session" + (f", and opens {found.other}" if found.other else "")
        case f.SessionForgot():
            return f"forgets {found.count} partitions"
        case f.SessionOutOfTurn():
            return f"sends epoch {found.epoch}"
        case f.SessionLost():
            for why in found.causes:
                if isinstance(why, f.SessionClosed):
                    return f"session {found.session} was closed by {why.by.words}"
                if isinstance(why, f.SessionEvicted):
                    used = f"session {found.session}, used last at {why.used.place}"
                    return f"{used}; {len(why.openers)} were opened since" if why.openers else used
            return f"session {found.session}, seen here first"
        case f.LeaderChanged():
            return f"broker {found.leader} leads in epoch {found.epoch}"
        case f.IsrShrank():
            return f"broker {found.broker} left"
        case f.IsrGrew():
            return f"broker {found.broker} came back"
        case f.WatermarkDiffers() | f.WatermarkDiffersBriefly():
            of = found.difference
            return f"broker {of.leader} told {of.reported}, by the rule it is {of.derived}"
        case f.IsrRequested() | f.IsrAgainstRule():
            change = found.change
            verb = "in" if change.is_added else "out"
            why_not = f", and {breach(change.why)}" if change.why else ""
            return f"leader {change.leader} wanted broker {change.broker} {verb}{why_not}"
        case f.SampleTaken() | f.IsrSampleTaken():
            return moved(found.sample.why)
        case f.LsoHeldBack():
            readers = f"; {names_of(found.readers)} read only committed" if found.readers else ""
            return (
                f"the last stable offset stays at {found.stable}, {found.behind} behind the high"
                f" watermark{readers}"
            )
        case f.ClientThrottled():
            return (
                f"{counted(found.count, 'response')} to {', '.join(found.apis)}, up to"
                f" {found.longest_ms} ms"
            )
        case f.DeprecatedVersion():
            return f"{found.api} v{found.version}, {counted(found.count, 'request')}"
        case f.BrokerGone():
            return _gone(found)
        case f.AcknowledgeRefused():
            all_of = f"{found.partition.place} {found.first_offset} to {found.last_offset}"
            return f"{all_of} of {found.member}" + "".join(
                f"; {why.member} got {why.first} to {why.last} at {why.by.place}"
                for why in found.causes
                if isinstance(why, f.RecordsMoved)
            )
        case f.RecordsRejected():
            all_of = f"{found.partition.place} {found.first_offset} to {found.last_offset}"
            return f"{all_of} by {found.member}"
        case f.RecordsReleased():
            return f"gives back {_records(found)}"
        case f.RecordsArchived():
            return f"{_records(found)} after delivery {found.count}"
        case f.RecordsDeliveredAgain():
            return _delivered_again(found)
        case f.ShareSessionOpened():
            return "opens a share session"
        case f.ShareSessionClosed():
            return "closes its share session, and gives back what it has"
        case f.ShareSessionLost() | f.ShareSessionDenied():
            return f"group {found.group}, member {found.member}, epoch {found.epoch}"
    return ""


def held(found: f.LsoHeldBack) -> str:
    """Which transaction held back the last stable offset, for how long, and who waits."""
    seconds = found.held_ms / 1000
    text = f"the last stable offset stayed at {found.stable} for {seconds:.1f} s"
    if found.ended is None:
        text = f"the last stable offset stays at {found.stable}, {seconds:.1f} s so far"
    text += f", {found.behind} records behind the high watermark"
    holders = [each for each in found.causes if isinstance(each, f.OpenTransactionOf)]
    for each in holders:
        since = f"since {each.began.words}"
        until = f" until {found.ended.words}" if found.ended is not None else ""
        text += f": a transaction of {each.producer.name} was open {since}{until}"
    if not holders:
        text += "; the recording does not show the transaction"
    if found.readers:
        text += f"; waiting for it: {names_of(found.readers)} (isolation.level=read_committed)"
    return text


def _gone(found: f.BrokerGone) -> str:
    how = "shut down" if found.is_shutdown else "was gone"
    since = f"broker {found.broker} {how} after {clock(found.last_sign)}"
    if found.back is None:
        return f"{since}; the recording does not show its return"
    if found.is_shutdown:
        return f"{since}, and was back at {clock(found.back)}"
    return f"broker {found.broker} was gone from {clock(found.last_sign)} to {clock(found.back)}"


def _batch(found: f.BatchFinding) -> str:
    return (
        f"sequences {found.first_sequence} to {found.last_sequence} of epoch {found.epoch} at"
        f" {found.offset}"
    )


def _missing(found: f.BatchFinding) -> str:
    """The sequences between a refused batch and the last one that was written."""
    if found.partition is None:
        return ""
    text = f"begins at {found.first_sequence} of epoch {found.epoch}"
    for why in found.causes:
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
    return f"after {ended.lasted_ms} ms{by if is_told else ', without an EndTxn'}"


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


def _records(found: f.RecordsFinding) -> str:
    return f"{found.partition.place} {_span(found.first_offset, found.last_offset)}"


def _span(first: int, last: int) -> str:
    """`7`, `7 to 9`."""
    return str(first) if first == last else f"{first} to {last}"


def _delivered_again(found: f.RecordsDeliveredAgain) -> str:
    text = f"{_records(found)} to {found.member}"
    text += f" for the {found.count}th time" if found.count > 3 else ""
    for why in found.causes:
        if isinstance(why, f.DeliveredBefore):
            released = why.released
            became = f"given back by {released.words}" if released else "not acknowledged"
            text += f"; before, {why.member} got them at {why.by.place}, {became}"
    return text


def _again(found: f.RecordsDeliveredAgain) -> str:
    text = f"{_records(found)}: delivery {found.count}"
    for why in found.causes:
        if isinstance(why, f.DeliveredBefore):
            text += f"; before, {why.member} got it by {why.by.words}"
            released = why.released
            in_time = ", and did not acknowledge it in time"
            text += f", and gave it back by {released.words}" if released else in_time
    return text
