"""What a member of a share group gets, and what it says of it: a session with each leader.

Source: KIP-932; `ShareConsumeRequestManager`, `ShareFetchCollector`, `ShareConsumerImpl` in Kafka.

    the application polls
      what it was given is accepted (implicit), or was acknowledged by it, record by record
      nothing is left of what has come: each leader is asked for more (ShareFetch), and told what
      became of the records before; else leaders are told that alone (ShareAcknowledge)
      (nothing is asked for ahead, while the application works: locks would run meanwhile)

    answer                              what becomes of it
    an error of the whole request       the session is over; 30, 35, 42: the end
    no answer                           the session is over: its broker gives back what it had
    an error of a partition             it waits for `retry.backoff.ms`, and for newer metadata
    a ShareAcknowledge not taken yet    it is told again, after `retry.backoff.ms`, unless the error
                                        says that another one leads
    acquired, but no record             it is acknowledged as a gap
    a renewed lock (KIP-1222)           the record comes with the next poll once more; where the
                                        leader has not renewed it, it is its member's no more

While locks are renewed a poll gives no other records. A ShareAcknowledge renews, not a ShareFetch,
which could not read then. Only who acknowledges explicitly can renew.

With `share.acquire.mode=record_limit` one leader is asked for records at a time, another one after
its answer, so that no more come than `max.poll.records`.

A record goes back to the leader that it came from, in the same session. Where another one leads by
now, or that one has left the cluster, its acknowledgements fail (6 NOT_LEADER_OR_FOLLOWER) without
being sent, and the session with a broker that is not there any more is over. When a session is over
its acknowledgements fail (13 NETWORK_EXCEPTION where the connection ended, the request's error
where there was one; 123 INVALID_SHARE_SESSION_EPOCH for later ones), and records that were not yet
given to the application are dropped; so are those whose lock is over by then, and those of
partitions that are assigned no more are released. `ShareAcknowledged` tells what became of
acknowledgements.

Record bytes are the caller's, as in `fetcher.py`. Times are ms on the caller's clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.consumer_events import Event, Failed, ShareAcknowledged
from brokertwin.clients.fetcher import Records
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_session import AcknowledgeType, ShareSession
from brokertwin.state.core.errors import RETRIABLE, Error, error_of
from brokertwin.state.core.wire.generated.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from brokertwin.state.core.wire.generated.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from brokertwin.state.core.wire.generated.shared import ShareFetchTopic
from brokertwin.state.share.share_sessions import TopicPartitionId

FATAL = frozenset(
    {Error.GROUP_AUTHORIZATION_FAILED, Error.UNSUPPORTED_VERSION, Error.INVALID_REQUEST}
)
"""Errors of a whole request after which no other one would fare better."""

OF_ANOTHER_LEADER = frozenset(
    {
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH),
        *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID),
    }
)
"""Errors after which this leader would take no acknowledgement either, were it told again."""
RECORD_LIMIT = 1


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """By Kafka's names; sizes in bytes, times in ms.

    `is_explicit`: `share.acknowledgement.mode=explicit`. `acquire_mode`: 0 batch_optimized, 1
    record_limit (`share.acquire.mode`).
    """

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_poll_records: int = 500
    is_explicit: bool = False
    acquire_mode: int = 0
    retry_backoff: ExponentialBackoff = retry_backoff()


class ShareRecord(NamedTuple):
    """A record that the member has: `delivery_count` is 1 where nobody had it before."""

    partition: TopicPartition
    offset: int
    record: Any
    delivery_count: int


class _Come(NamedTuple):
    """A record that the application has not got: of which session, and when its lock is over."""

    record: ShareRecord
    place: TopicPartitionId
    session: ShareSession
    until: int


class _Had(NamedTuple):
    """A record that the application has got, and where it is to be acknowledged."""

    record: ShareRecord
    place: TopicPartitionId
    session: ShareSession


class Asked(NamedTuple):
    """A request to a leader: in which session, since when, and what it acknowledges."""

    node: int
    session: ShareSession
    body: ShareFetchRequest | ShareAcknowledgeRequest
    since: int
    is_last: bool = False

    @property
    def topics(self) -> list[ShareFetchTopic]:
        """What it names."""
        return self.body.topics


class ShareFetcher:
    """Sessions with leaders, and records of one member.

    Attributes:
        sessions: by broker.
        had: the records that the application has, and that it has not acknowledged.
        lock_ms: how long a record is its member's, as a leader has said last; None before.
        events: what has happened, for the application to take.
        fatal: why it can not go on.
        needs_metadata: whether something that the cluster said is newer than what is known of it.
    """

    def __init__(self, settings: ShareSettings, group_id: str, member_id: str) -> None:
        self.sessions: dict[int, ShareSession] = {}
        self.had: dict[tuple[TopicPartition, int], _Had] = {}
        self.lock_ms: int | None = None
        self.events: list[Event] = []
        self.needs_metadata = False
        self.fatal: Error | None = None
        self._settings = settings
        self._ids = group_id, member_id
        self._come: deque[_Come] = deque()
        self._renewing: dict[tuple[TopicPartition, int], _Had] = {}
        self._renewed: list[_Had] = []
        self._names: dict[TopicPartitionId, TopicPartition] = {}
        self._places: dict[TopicPartition, TopicPartitionId] = {}
        self._wants_more = self._tells = self._is_closing = False
        self._not_before: dict[TopicPartition, int] = {}
        self._quiet_until: dict[int, int] = {}
        self._tell_after: dict[int, int] = {}
        self._asked_last = -1
        self._attempts = 0

    # The application's side

    def poll(self, assigned: Iterable[TopicPartition], now: int) -> list[ShareRecord]:
        """What it gets to work on now.

        Raises ValueError where it acknowledges by itself and has not acknowledged all it has got.
        """
        if self._settings.is_explicit and self.had:
            raise ValueError(f"{len(self.had)} records are not acknowledged")
        self.acknowledge_all()
        self._tells = True
        taken = self._take(frozenset(assigned), now)
        self._wants_more = not taken
        return taken

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Says what became of a record.

        A leader hears of it with the next poll, or `commit`. Raises ValueError where the
        application does not have it, or renews its lock and does not acknowledge explicitly.
        """
        if kind is AcknowledgeType.RENEW and not self._settings.is_explicit:
            raise ValueError("a lock is renewed where records are acknowledged explicitly")
        had = self.had.pop((partition, offset), None)
        if had is None:
            raise ValueError(f"{partition.topic}-{partition.partition} {offset} is not had")
        if kind is AcknowledgeType.RENEW:
            self._renewing[partition, offset] = had
        self._acknowledge(partition, offset, kind, had)

    def acknowledge_all(self, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Says the same of every record that it has."""
        for partition, offset in list(self.had):
            self.acknowledge(partition, offset, kind)

    def commit(self) -> None:
        """Leaders are told now what is acknowledged (`commitSync`, `commitAsync`).

        Without explicit acknowledgements that is all that it has, accepted.
        """
        if not self._settings.is_explicit:
            self.acknowledge_all()
        self._tells = True

    def close(self) -> None:
        """Each session is closed, with what is acknowledged; all else is given back."""
        self._is_closing = True

    @property
    def is_told(self) -> bool:
        """Whether leaders have answered to all that was acknowledged."""
        return not any(each.acknowledged or each.is_telling for each in self.sessions.values())

    @property
    def is_closed(self) -> bool:
        """Whether no session is open, and no request under way."""
        return not self.sessions

    def _take(self, assigned: frozenset[TopicPartition], now: int) -> list[ShareRecord]:
        if self._renewing or self._renewed:
            return self._take_renewed()
        taken: list[ShareRecord] = []
        while self._come and len(taken) < self._settings.max_poll_records:
            record, place, session, until = self._come.popleft()
            if session not in self.sessions.values() or now >= until:
                continue
            had = _Had(record, place, session)
            if record.partition in assigned:
                self.had[record.partition, record.offset] = had
                taken.append(record)
            else:
                self._acknowledge(record.partition, record.offset, AcknowledgeType.RELEASE, had)
        return taken

    def _take_renewed(self) -> list[ShareRecord]:
        """The records whose locks were renewed, unless their session is over by now."""
        renewed, self._renewed = self._renewed, []
        taken = [each for each in renewed if each.session in self.sessions.values()]
        for each in taken:
            self.had[each.record.partition, each.record.offset] = each
        return [each.record for each in taken]

    def _acknowledge(
        self, partition: TopicPartition, offset: int, kind: AcknowledgeType, had: _Had
    ) -> None:
        if had.session in self.sessions.values():
            had.session.acknowledged.setdefault(had.place, {})[offset] = kind
        else:
            self._ended(partition, [offset], Error.INVALID_SHARE_SESSION_EPOCH)

    def _ended(self, partition: TopicPartition, offsets: list[int], error: Error) -> None:
        """Nothing more comes of some acknowledgements; what was renewed is to be given again."""
        for offset in offsets:
            had = self._renewing.pop((partition, offset), None)
            if had is not None and error is Error.NONE:
                self._renewed.append(had)
        self.events.append(ShareAcknowledged(partition, offsets, error))

    # Requests

    def requests(
        self,
        assigned: Iterable[TopicPartition],
        snapshot: MetadataSnapshot,
        now: int,
        is_ready: Callable[[int], bool],
    ) -> list[Asked]:
        """What is to be sent to leaders that nothing is under way to.

        `is_ready`: whether a broker has a connection that takes a request; asked where one is due.
        """
        led = {} if self._is_closing or self.fatal else self._led(assigned, snapshot)
        self._leave_former_leaders(snapshot)
        made = []
        for node in sorted({**self.sessions, **led}, key=lambda node: node == self._asked_last):
            session = self.sessions.get(node) or ShareSession()
            reads = [] if session.renews else self._reads(node, led.get(node, []), now)
            is_last = session.is_open and node not in led and not self._has_of(session)
            is_due = self._tells and self._tell_after.get(node, 0) <= now
            tells = is_due and bool(session.acknowledged)
            if session.is_asking or not (reads or is_last or tells) or not is_ready(node):
                continue
            if reads:
                made.append(self._fetch(node, session, reads, now))
            else:
                made.append(self._acknowledgement(node, session, is_last, now))
        if not any(session.acknowledged for session in self.sessions.values()):
            self._tells = False
        return made

    def deadlines(self) -> list[int]:
        """When a leader or a partition may be asked again."""
        pauses = (self._not_before, self._quiet_until, self._tell_after)
        return [time for each in pauses for time in each.values()]

    def _leave_former_leaders(self, snapshot: MetadataSnapshot) -> None:
        """What others lead by now is not told to those that led; who has gone has no session."""
        for node, session in list(self.sessions.items()):
            for place in list(session.acknowledged):
                leader = snapshot.leader(self._names[place])
                if leader is None or leader.id != node:
                    self.needs_metadata |= leader is None
                    offsets = sorted(session.acknowledged.pop(place))
                    self._ended(self._names[place], offsets, Error.NOT_LEADER_OR_FOLLOWER)
            if node not in snapshot.nodes and not session.is_asking:
                del self.sessions[node]

    def _led(
        self, assigned: Iterable[TopicPartition], snapshot: MetadataSnapshot
    ) -> dict[int, list[TopicPartition]]:
        """The assigned partitions, by the brokers that lead them."""
        found: dict[int, list[TopicPartition]] = {}
        for partition in assigned:
            leader = snapshot.leader(partition)
            topic_id = snapshot.topic_ids.get(partition.topic)
            if leader is None or topic_id is None:
                self.needs_metadata = True
            else:
                self._names[topic_id, partition.partition] = partition
                self._places[partition] = topic_id, partition.partition
                found.setdefault(leader.id, []).append(partition)
        return found

    def _reads(self, node: int, led: Iterable[TopicPartition], now: int) -> list[TopicPartitionId]:
        """The partitions that a leader is to be asked for now."""
        if not self._wants_more or self._come or self._quiet_until.get(node, 0) > now:
            return []
        is_limited = self._settings.acquire_mode == RECORD_LIMIT
        if is_limited and any(each.is_reading for each in self.sessions.values()):
            return []
        return [self._places[at] for at in led if self._not_before.get(at, 0) <= now]

    def _has_of(self, session: ShareSession) -> bool:
        """Whether it has records of a session: these would be given back with it."""
        if self._is_closing:
            return False
        had = (*self.had.values(), *self._renewing.values(), *self._renewed)
        sessions = [each.session for each in had] + [each.session for each in self._come]
        return any(each is session for each in sessions)

    def _fetch(
        self, node: int, session: ShareSession, places: list[TopicPartitionId], now: int
    ) -> Asked:
        self.sessions[node], self._asked_last = session, node
        session.is_reading = True
        topics, forgotten = session.fetch(places)
        group_id, member_id = self._ids
        settings = self._settings
        body = ShareFetchRequest(
            group_id=group_id,
            member_id=member_id,
            share_session_epoch=session.begin(),
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
            share_acquire_mode=settings.acquire_mode,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        return Asked(node, session, body, now)

    def _acknowledgement(self, node: int, session: ShareSession, is_last: bool, now: int) -> Asked:
        renews, topics = session.renews, session.acknowledge()
        group_id, member_id = self._ids
        body = ShareAcknowledgeRequest(
            group_id=group_id,
            member_id=member_id,
            share_session_epoch=session.begin(is_last=is_last),
            is_renew_ack=renews,
            topics=topics,
        )
        return Asked(node, session, body, now, is_last)

    # Answers

    def fetched(
        self,
        asked: Asked,
        response: ShareFetchResponse,
        records: Mapping[tuple[str, int], Records],
        now: int,
    ) -> None:
        """The answer to a ShareFetch; `records` by a topic's id and the partition."""
        if not self._goes_on(asked, error_of(response.error_code), now):
            return
        if response.throttle_time_ms:
            self._quiet_until[asked.node] = now + response.throttle_time_ms
        self.lock_ms = response.acquisition_lock_timeout_ms
        until = asked.since + response.acquisition_lock_timeout_ms
        errors: dict[TopicPartitionId, Error] = {}
        for topic in response.responses:
            for answer in topic.partitions:
                place = topic.topic_id, answer.partition_index
                if place not in self._names:
                    continue
                errors[place] = error_of(answer.acknowledge_error_code)
                if answer.error_code != Error.NONE:
                    self._wait(self._names[place], now)
                elif answer.acquired_records:
                    come = records.get(place)
                    self._keep(asked.session, place, answer, come.items if come else (), until)
        self._told(asked, errors)

    def acknowledged(self, asked: Asked, response: ShareAcknowledgeResponse, now: int) -> None:
        """The answer to a ShareAcknowledge."""
        if not self._goes_on(asked, error_of(response.error_code), now):
            return
        self.lock_ms = response.acquisition_lock_timeout_ms
        errors = {
            (topic.topic_id, answer.partition_index): error_of(answer.error_code)
            for topic in response.responses
            for answer in topic.partitions
        }
        if asked.is_last:
            self._told(asked, errors)
            self.sessions.pop(asked.node, None)
        else:
            self._told(asked, errors, now)

    def failed(self, asked: Asked, now: int) -> None:
        """No answer comes."""
        if self.sessions.get(asked.node) is asked.session:
            self._end(asked, Error.NETWORK_EXCEPTION)
            self._pause(asked.node, now)

    def lost(self, node: int) -> None:
        """A connection is gone, and with it the session that it has opened."""
        session = self.sessions.pop(node, None)
        if session is not None:
            self._give_up(session, Error.NETWORK_EXCEPTION)

    def _goes_on(self, asked: Asked, error: Error, now: int) -> bool:
        """Whether the session goes on; where it does not its acknowledgements have failed."""
        if self.sessions.get(asked.node) is not asked.session:
            return False
        asked.session.is_asking = asked.session.is_telling = False
        asked.session.is_reading = False
        if error is Error.NONE:
            self._attempts = 0
            return True
        self._end(asked, error)
        if error in FATAL:
            self.fatal = error
            self.events.append(Failed(error))
        elif error not in (Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH):
            self._pause(asked.node, now)
        return False

    def _end(self, asked: Asked, error: Error) -> None:
        """The session is over for its member."""
        del self.sessions[asked.node]
        for topic in asked.topics:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                self._say(place, each.acknowledgement_batches, error)
        self._give_up(asked.session, error)

    def _give_up(self, session: ShareSession, error: Error) -> None:
        for place, offsets in session.acknowledged.items():
            self._ended(self._names[place], sorted(offsets), error)

    def _told(
        self, asked: Asked, errors: Mapping[TopicPartitionId, Error], again: int | None = None
    ) -> None:
        """A leader has taken acknowledgements, or has not: of those that it leaves out none.

        `again`: the time, where it may be told once more what it could not take yet.
        """
        self._tell_after.pop(asked.node, None)
        for topic in asked.topics:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                error = errors.get(place, Error.INVALID_RECORD_STATE)
                if again is not None and error in RETRIABLE - OF_ANOTHER_LEADER:
                    asked.session.put_back(place, each.acknowledgement_batches)
                    pause = self._settings.retry_backoff.backoff(0, 0.5)
                    self._tell_after[asked.node], self._tells = again + pause, True
                else:
                    self._say(place, each.acknowledgement_batches, error)

    def _say(self, place: TopicPartitionId, batches: Sequence[Any], error: Error) -> None:
        offsets = [
            offset for each in batches for offset in range(each.first_offset, each.last_offset + 1)
        ]
        if offsets:
            self._ended(self._names[place], offsets, error)

    def _keep(
        self,
        session: ShareSession,
        place: TopicPartitionId,
        answer: ShareFetchResponsePartitionData,
        items: Iterable[tuple[int, Any]],
        until: int,
    ) -> None:
        """What was acquired comes to the application; where there is no record it is a gap."""
        found = dict(items)
        for acquired in answer.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset in found:
                    record = ShareRecord(
                        self._names[place], offset, found[offset], acquired.delivery_count
                    )
                    self._come.append(_Come(record, place, session, until))
                else:
                    gaps = session.acknowledged.setdefault(place, {})
                    gaps[offset] = AcknowledgeType.GAP
                    self._tells = True

    def _wait(self, partition: TopicPartition, now: int) -> None:
        """Its leader does not give anything of it, and may be another one."""
        self.needs_metadata = True
        self._not_before[partition] = now + self._settings.retry_backoff.backoff(0, 0.5)

    def _pause(self, node: int, now: int) -> None:
        self.needs_metadata = True
        pause = self._settings.retry_backoff.backoff(self._attempts, 0.5)
        self._quiet_until[node] = now + pause
        self._attempts += 1
