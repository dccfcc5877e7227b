"""Rules that are broken on purpose by another function or property in their place.

One for each kind of rule of replication, transactions, producers, groups and fetch sessions. Unlike
those in `table.py` they need not match the text of the rule.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from brokertwin.processes import end_with_parent
from brokertwin.protocol.errors import Error
from brokertwin.state.apis import heartbeat, list_offsets, offset_commit, txn_offset_commit
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.groups import consumer_coordinator
from brokertwin.state.logs import log, producer, truncation
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.log_transactions import NO_OFFSET
from brokertwin.state.replication import acks, copying, follower, in_sync, leader
from brokertwin.state.replication.follower import Truncation
from brokertwin.state.replication.leader import Leadership
from brokertwin.state.transactions import transactional_offsets


class Break(NamedTuple):
    """A rule, and the attribute that breaks it.

    `seed` is the first that notices it; None if no such seed below `SEEDS` is known.
    """

    name: str
    rule: str
    owner: object
    attribute: str
    other: object
    seed: int | None = None


SEEDS = 120


def _forgiving(function: Callable[..., Any], *errors: Error) -> Callable[..., Any]:
    def forgiving(*args: Any, **named: Any) -> Any:
        found = function(*args, **named)
        return Error.NONE if found in errors else found

    return forgiving


def _but(module: Any, **others: object) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(module), **others})


def _accepting(*errors: Error) -> Callable[..., Any]:
    check = producer.check

    def accepting(*args: Any) -> Any:
        found = check(*args)
        return producer.ACCEPTED if found.error in errors else found

    return accepting


def _first_unstable(found: Log, more: int = 0, *, only_open: bool = False) -> int:
    first = [
        max(each.first_offset, found.start_batch) + more
        for each in found.transactions
        if not only_open or each.last_offset == NO_OFFSET
    ]
    return min([found.high_watermark, *first])


def _set_high_watermark(found: Log, offset: int) -> None:
    found.high_watermark = offset


_aborted_in, _out_of_sync, _open = log.aborted_in, leader.out_of_sync, SessionCache.open


def _aborted_later(at: Any, found: Log, offset: int, read: Any) -> Any:
    aborted = _aborted_in(at, found, offset, read)
    return [each for each in aborted if each.first_offset >= offset]


def _out_of_sync_at_once(leadership: Leadership, end: int, now: int, *_: Any) -> list[int]:
    return _out_of_sync(leadership, end, now, -1)


def _open_in_any_epoch(cache: SessionCache, session_id: int, epoch: int, *more: Any) -> Any:
    session = cache.session(session_id) if epoch > 0 else None
    return _open(cache, session_id, session.epoch if session is not None else epoch, *more)


BREAKS: tuple[Break, ...] = (
    Break(
        "watermark-at-end",
        "the high watermark waits for the followers",
        leader,
        "high_watermark",
        lambda _, end, *__: end,
        0,
    ),
    Break(
        "watermark-leaving",
        "a replica counts for the high watermark until the controller has removed it",
        Leadership,
        "maximal_isr",
        property(lambda each: frozenset(each.isr if each.pending is None else each.pending)),
        9,
    ),
    Break(
        "watermark-after-shrink",
        "the high watermark rises when a replica has left the in-sync set",
        in_sync,
        "copying",
        _but(copying, high_watermark_raise=lambda *_: None),
    ),
    Break(
        "shrinks-at-once",
        "a replica leaves the in-sync set after replica.lag.time.max.ms",
        leader,
        "out_of_sync",
        _out_of_sync_at_once,
        25,
    ),
    Break("shrinks-never", "a late replica is removed", leader, "out_of_sync", lambda *_: [], 10),
    Break(
        "expands-never",
        "a replica that has caught up joins the in-sync set",
        leader,
        "may_expand",
        lambda *_: False,
        0,
    ),
    Break(
        "transactions-after-truncation",
        "open transactions are read again after a truncation",
        truncation,
        "_read_transactions",
        lambda *_: None,
    ),
    Break(
        "epoch-of-follower",
        "a leader compares the follower's last epoch",
        log,
        "diverging",
        lambda *_: None,
        51,
    ),
    Break(
        "truncates-to-watermark",
        "a follower truncates to the end of the leader epoch",
        follower,
        "truncation",
        lambda found, _: Truncation(found.high_watermark, True),
    ),
    Break(
        "too-few-after-append",
        "20 NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        acks,
        "outcome",
        _forgiving(acks.outcome, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ),
    Break(
        "stable-is-watermark",
        "the last stable offset is before an open transaction",
        Log,
        "last_stable_offset",
        property(lambda found: found.high_watermark),
        0,
    ),
    Break(
        "stable-one-more",
        "the last stable offset is the first offset of the open transaction",
        Log,
        "last_stable_offset",
        property(lambda found: _first_unstable(found, 1)),
        0,
    ),
    Break(
        "stable-before-marker",
        "a transaction is open until its marker is below the high watermark",
        Log,
        "last_stable_offset",
        property(lambda found: _first_unstable(found, only_open=True)),
        0,
    ),
    Break(
        "stable-stuck",
        "the last stable offset rises with the marker",
        log,
        "raise_high_watermark",
        _set_high_watermark,
        0,
    ),
    Break(
        "aborted-none",
        "a read_committed response lists the aborted transactions",
        log,
        "aborted_in",
        lambda *_: [],
        12,
    ),
    Break(
        "aborted-begun-before",
        "it lists those that began before its first record, too",
        log,
        "aborted_in",
        _aborted_later,
    ),
    Break(
        "commit-supersedes",
        "a plain commit supersedes an older one in a transaction",
        transactional_offsets,
        "apply_committed",
        lambda *_: None,
        21,
    ),
    Break(
        "commit-of-transaction",
        "a committed transaction commits its offsets",
        transactional_offsets,
        "_committed",
        lambda *_: [],
        7,
    ),
    Break(
        "producer-epoch",
        "a batch of an older epoch is refused",
        producer,
        "check",
        _accepting(Error.INVALID_PRODUCER_EPOCH),
        2,
    ),
    Break(
        "sequence",
        "a sequence follows the last one",
        producer,
        "check_sequence",
        lambda *_: producer.ACCEPTED,
        30,
    ),
    Break(
        "producers-after-truncation",
        "producers are read again after a truncation",
        truncation,
        "producer",
        _but(producer, append=lambda *_: None),
        30,
    ),
    Break(
        "verification",
        "a transaction is verified before its first batch",
        producer,
        "check",
        _accepting(Error.INVALID_TXN_STATE),
    ),
    Break(
        "marker-epoch",
        "a marker of an older epoch or coordinator is refused",
        producer,
        "check_marker",
        lambda *_: Error.NONE,
    ),
    Break(
        "heartbeat-generation",
        "a heartbeat of another generation is refused",
        heartbeat,
        "_heartbeat",
        _forgiving(heartbeat._heartbeat, Error.ILLEGAL_GENERATION),
    ),
    Break(
        "commit-generation",
        "a commit of another generation is refused",
        offset_commit,
        "_group_error",
        _forgiving(offset_commit._group_error, Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH),
    ),
    Break(
        "transaction-generation",
        "a commit of another generation in a transaction is refused",
        txn_offset_commit,
        "_group_error",
        _forgiving(txn_offset_commit._group_error, Error.ILLEGAL_GENERATION),
    ),
    Break(
        "member-epoch",
        "a heartbeat of an older member epoch is fenced",
        consumer_coordinator,
        "_valid_member",
        lambda member, _: member,
    ),
    Break(
        "session-epoch",
        "a fetch of another session epoch is refused",
        SessionCache,
        "open",
        _open_in_any_epoch,
    ),
    Break(
        "latest-committed",
        "the latest offset of read_committed is the last stable offset",
        list_offsets,
        "_last_fetchable",
        lambda found, _: found.high_watermark,
    ),
)

BY_NAME = {each.name: each for each in BREAKS}


def begin(name: str) -> None:
    found = BY_NAME[name]
    setattr(found.owner, found.attribute, found.other)
    end_with_parent()
