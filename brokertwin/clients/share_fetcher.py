"""Fetches and acknowledges share records: one session with each leader.

Source: KIP-932; `ShareConsumeRequestManager`, `ShareFetchCollector`, `ShareConsumerImpl` in Kafka.

    the application polls
    its records are accepted (implicit mode), or were acknowledged one by one (explicit mode)
    without buffered records each leader receives a ShareFetch, which also has the acknowledgements;
    otherwise leaders receive the acknowledgements alone (ShareAcknowledge)
    (there is no prefetch, because acquisition locks would expire while the application works)

    response                          effect
    top-level error                   the session is over; 30 GROUP_AUTHORIZATION_FAILED,
                                      35 UNSUPPORTED_VERSION and 42 INVALID_REQUEST are fatal
    no response                       the session is over; its broker releases the records
    partition error                   waits for `retry.backoff.ms` and newer metadata
    failed ShareAcknowledge           sent again after `retry.backoff.ms`, unless the error names
                                      another leader
    acquired offset without record    acknowledged as a gap
    renewed lock (KIP-1222)           the record is returned by the next poll; if the renewal
                                      failed, the record is no longer held

A poll returns no other records while locks are being renewed. Only a ShareAcknowledge renews, and
only in explicit mode.

With `share.acquire.mode=record_limit` one leader at a time is fetched from, so that at most
`max.poll.records` arrive.

Acknowledgements go to the leader and session of the record. If the leader has changed or left, they
fail with 6 NOT_LEADER_OR_FOLLOWER without being sent, and the session with a removed broker ends.
When a session ends, its acknowledgements fail: 13 NETWORK_EXCEPTION for a closed connection, the
request's error otherwise, 123 INVALID_SHARE_SESSION_EPOCH for later ones. Buffered records of an
ended session, or with an expired lock, are dropped. Buffered records of unassigned partitions are
released. `ShareAcknowledged` has the results.

The caller decodes record bytes, as in `fetcher.py`. Times are ms on the caller's clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.consumer_events import ConsumerFailed, Event, ShareAcknowledged
from brokertwin.clients.fetcher import Records
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_session import AcknowledgeType, ShareSessionHandler
from brokertwin.protocol.errors import RETRIABLE, Error, error_of
from brokertwin.protocol.generated.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from brokertwin.protocol.generated.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import ShareFetchTopic
from brokertwin.state.share.share_sessions import TopicPartitionId

FATAL = frozenset(
    {Error.GROUP_AUTHORIZATION_FAILED, Error.UNSUPPORTED_VERSION, Error.INVALID_REQUEST}
)
"""Fatal top-level errors."""

OF_ANOTHER_LEADER = frozenset(
    {
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH),
        *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID),
    }
)
"""Errors after which this leader accepts no acknowledgements either."""
RECORD_LIMIT = 1


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """By Kafka's names; sizes in bytes, times in ms.

    `is_explicit` is `share.acknowledgement.mode=explicit`. `acquire_mode` is `share.acquire.mode`:
    0 batch_optimized, 1 record_limit.
    """

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_poll_records: int = 500
    is_explicit: bool = False
    acquire_mode: int = 0
    retry_backoff: ExponentialBackoff = retry_backoff()


class ShareRecord(NamedTuple):
    """A record; `delivery_count` is 1 at its first delivery."""

    partition: TopicPartition
    offset: int
    record: Any
    delivery_count: int


class _DeliveredRecord(NamedTuple):
    """A record of the application or of the buffer, and its session."""

    record: ShareRecord
    place: TopicPartitionId
    session: ShareSessionHandler


class _BufferedRecord(NamedTuple):
    """A buffered record, and when its lock expires."""

    delivered: _DeliveredRecord
    until: int


class LeaderShareRequest(NamedTuple):
    node: int
    session: ShareSessionHandler
    body: ShareFetchRequest | ShareAcknowledgeRequest
    since: int
    is_last: bool = False

    @property
    def topics(self) -> list[ShareFetchTopic]:
        return self.body.topics


class ShareFetcher:
    """Sessions with leaders, and the records of one member.

    Attributes:
        sessions: by broker.
        held: unacknowledged records that the application holds.
        lock_ms: last acquisition lock timeout; None before the first.
        fatal: the error that ended the consumer.
        needs_metadata: a response showed outdated metadata.
    """

    def __init__(self, settings: ShareSettings, group_id: str, member_id: str) -> None:
        self.sessions: dict[int, ShareSessionHandler] = {}
        self.held: dict[tuple[TopicPartition, int], _DeliveredRecord] = {}
        self.lock_ms: int | None = None
        self.events: list[Event] = []
        self.needs_metadata = False
        self.fatal: Error | None = None
        self._settings = settings
        self._ids = group_id, member_id
        self._buffered: deque[_BufferedRecord] = deque()
        self._renewing: dict[tuple[TopicPartition, int], _DeliveredRecord] = {}
        self._renewed: list[_DeliveredRecord] = []
        self._names: dict[TopicPartitionId, TopicPartition] = {}
        self._places: dict[TopicPartition, TopicPartitionId] = {}
        self._wants_records = self._must_acknowledge = self._is_closing = False
        self._not_before: dict[TopicPartition, int] = {}
        self._quiet_until: dict[int, int] = {}
        self._acknowledge_after: dict[int, int] = {}
        self._last_node = -1
        self._attempts = 0

    # API

    def poll(self, assigned: Iterable[TopicPartition], now: int) -> list[ShareRecord]:
        """Return records for the application.

        Raises ValueError in explicit mode if records are unacknowledged.
        """
        if self._settings.is_explicit and self.held:
            raise ValueError(f"{len(self.held)} records are not acknowledged")
        self.accept_all()
        self._must_acknowledge = True
        taken = self._take(frozenset(assigned), now)
        self._wants_records = not taken
        return taken

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record; sent with the next poll or `commit`.

        Raises ValueError if the application does not hold it, or for RENEW in implicit mode.
        """
        if kind is AcknowledgeType.RENEW and not self._settings.is_explicit:
            raise ValueError("a lock can only be renewed in explicit mode")
        had = self.held.pop((partition, offset), None)
        if had is None:
            raise ValueError(f"{partition.topic}-{partition.partition} {offset} is not held")
        if kind is AcknowledgeType.RENEW:
            self._renewing[partition, offset] = had
        self._acknowledge(partition, offset, kind, had)

    def accept_all(self) -> None:
        for partition, offset in list(self.held):
            self.acknowledge(partition, offset, AcknowledgeType.ACCEPT)

    def commit(self) -> None:
        """Send acknowledgements now (`commitSync`, `commitAsync`).

        In implicit mode all held records are accepted.
        """
        if not self._settings.is_explicit:
            self.accept_all()
        self._must_acknowledge = True

    def close(self) -> None:
        """Close each session with its acknowledgements; releases other records."""
        self._is_closing = True

    @property
    def is_acknowledged(self) -> bool:
        """Whether leaders have responded to all acknowledgements."""
        return not any(
            each.acknowledged or each.has_acknowledgements for each in self.sessions.values()
        )

    @property
    def is_closed(self) -> bool:
        """Whether no session is open and no request in flight."""
        return not self.sessions

    def _take(self, assigned: frozenset[TopicPartition], now: int) -> list[ShareRecord]:
        if self._renewing or self._renewed:
            return self._take_renewed()
        taken: list[ShareRecord] = []
        while self._buffered and len(taken) < self._settings.max_poll_records:
            had, until = self._buffered.popleft()
            record = had.record
            if had.session not in self.sessions.values() or now >= until:
                continue
            if record.partition in assigned:
                self.held[record.partition, record.offset] = had
                taken.append(record)
            else:
                self._acknowledge(record.partition, record.offset, AcknowledgeType.RELEASE, had)
        return taken

    def _take_renewed(self) -> list[ShareRecord]:
        """The records with renewed locks whose session is still open."""
        renewed, self._renewed = self._renewed, []
        taken = [each for each in renewed if each.session in self.sessions.values()]
        for each in taken:
            self.held[each.record.partition, each.record.offset] = each
        return [each.record for each in taken]

    def _acknowledge(
        self, partition: TopicPartition, offset: int, kind: AcknowledgeType, had: _DeliveredRecord
    ) -> None:
        if had.session in self.sessions.values():
            had.session.acknowledged.setdefault(had.place, {})[offset] = kind
        else:
            self._ended(partition, [offset], Error.INVALID_SHARE_SESSION_EPOCH)

    def _ended(self, partition: TopicPartition, offsets: list[int], error: Error) -> None:
        """Report the result of acknowledgements; renewed records are returned."""
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
    ) -> list[LeaderShareRequest]:
        """Return the requests for leaders without one in flight.

        `is_ready` returns whether a broker's connection accepts a request.
        """
        led = {} if self._is_closing or self.fatal else self._led(assigned, snapshot)
        self._leave_former_leaders(snapshot)
        made = []
        for node in sorted({**self.sessions, **led}, key=lambda node: node == self._last_node):
            session = self.sessions.get(node) or ShareSessionHandler()
            reads = [] if session.renews else self._reads(node, led.get(node, []), now)
            is_last = session.is_open and node not in led and not self._has_records_of(session)
            is_due = self._must_acknowledge and self._acknowledge_after.get(node, 0) <= now
            acknowledges = is_due and bool(session.acknowledged)
            if session.is_in_flight or not (reads or is_last or acknowledges) or not is_ready(node):
                continue
            if reads:
                made.append(self._fetch(node, session, reads, now))
            else:
                made.append(self._acknowledgement(node, session, is_last, now))
        if not any(session.acknowledged for session in self.sessions.values()):
            self._must_acknowledge = False
        return made

    def deadlines(self) -> list[int]:
        """Return when a leader or a partition may be queried again."""
        pauses = (self._not_before, self._quiet_until, self._acknowledge_after)
        return [time for each in pauses for time in each.values()]

    def _leave_former_leaders(self, snapshot: MetadataSnapshot) -> None:
        """Fail acknowledgements for former leaders; end removed brokers' sessions."""
        for node, session in list(self.sessions.items()):
            for place in list(session.acknowledged):
                leader = snapshot.leader(self._names[place])
                if leader is None or leader.id != node:
                    self.needs_metadata |= leader is None
                    offsets = sorted(session.acknowledged.pop(place))
                    self._ended(self._names[place], offsets, Error.NOT_LEADER_OR_FOLLOWER)
            if node not in snapshot.nodes and not session.is_in_flight:
                del self.sessions[node]

    def _led(
        self, assigned: Iterable[TopicPartition], snapshot: MetadataSnapshot
    ) -> dict[int, list[TopicPartition]]:
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in assigned:
            leader = snapshot.leader(partition)
            topic_id = snapshot.topic_ids.get(partition.topic)
            if leader is None or topic_id is None:
                self.needs_metadata = True
            else:
                self._names[topic_id, partition.partition] = partition
                self._places[partition] = topic_id, partition.partition
                by_node.setdefault(leader.id, []).append(partition)
        return by_node

    def _reads(self, node: int, led: Iterable[TopicPartition], now: int) -> list[TopicPartitionId]:
        if not self._wants_records or self._buffered or self._quiet_until.get(node, 0) > now:
            return []
        is_limited = self._settings.acquire_mode == RECORD_LIMIT
        if is_limited and any(each.is_reading for each in self.sessions.values()):
            return []
        return [self._places[at] for at in led if self._not_before.get(at, 0) <= now]

    def _has_records_of(self, session: ShareSessionHandler) -> bool:
        """Whether records of a session are held; closing releases them."""
        if self._is_closing:
            return False
        buffered = (each.delivered for each in self._buffered)
        had = (*self.held.values(), *self._renewing.values(), *self._renewed, *buffered)
        return any(each.session is session for each in had)

    def _fetch(
        self, node: int, session: ShareSessionHandler, places: list[TopicPartitionId], now: int
    ) -> LeaderShareRequest:
        self.sessions[node], self._last_node = session, node
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
        return LeaderShareRequest(node, session, body, now)

    def _acknowledgement(
        self, node: int, session: ShareSessionHandler, is_last: bool, now: int
    ) -> LeaderShareRequest:
        renews, topics = session.renews, session.acknowledge()
        group_id, member_id = self._ids
        body = ShareAcknowledgeRequest(
            group_id=group_id,
            member_id=member_id,
            share_session_epoch=session.begin(is_last=is_last),
            is_renew_ack=renews,
            topics=topics,
        )
        return LeaderShareRequest(node, session, body, now, is_last)

    # Responses

    def fetched(
        self,
        sent: LeaderShareRequest,
        response: ShareFetchResponse,
        records: Mapping[tuple[str, int], Records],
        now: int,
    ) -> None:
        """Handle a ShareFetch response; `records` by topic id and partition."""
        if not self._is_session_alive(sent, error_of(response.error_code), now):
            return
        if response.throttle_time_ms:
            self._quiet_until[sent.node] = now + response.throttle_time_ms
        self.lock_ms = response.acquisition_lock_timeout_ms
        until = sent.since + response.acquisition_lock_timeout_ms
        errors: dict[TopicPartitionId, Error] = {}
        for topic in response.responses:
            for result in topic.partitions:
                place = topic.topic_id, result.partition_index
                if place not in self._names:
                    continue
                errors[place] = error_of(result.acknowledge_error_code)
                if result.error_code != Error.NONE:
                    self._wait(self._names[place], now)
                elif result.acquired_records:
                    decoded = records.get(place)
                    self._keep(sent.session, place, result, decoded.items if decoded else (), until)
        self._settle_acknowledgements(sent, errors)

    def acknowledged(
        self, sent: LeaderShareRequest, response: ShareAcknowledgeResponse, now: int
    ) -> None:
        if not self._is_session_alive(sent, error_of(response.error_code), now):
            return
        self.lock_ms = response.acquisition_lock_timeout_ms
        errors = {
            (topic.topic_id, result.partition_index): error_of(result.error_code)
            for topic in response.responses
            for result in topic.partitions
        }
        if sent.is_last:
            self._settle_acknowledgements(sent, errors)
            self.sessions.pop(sent.node, None)
        else:
            self._settle_acknowledgements(sent, errors, now)

    def failed(self, sent: LeaderShareRequest, now: int) -> None:
        """Handle a request without a response."""
        if self.sessions.get(sent.node) is sent.session:
            self._end(sent, Error.NETWORK_EXCEPTION)
            self._pause(sent.node, now)

    def lost(self, node: int) -> None:
        """Handle a closed connection: its session is over."""
        session = self.sessions.pop(node, None)
        if session is not None:
            self._give_up(session, Error.NETWORK_EXCEPTION)

    def _is_session_alive(self, sent: LeaderShareRequest, error: Error, now: int) -> bool:
        """Whether the session continues; if not, its acknowledgements fail."""
        if self.sessions.get(sent.node) is not sent.session:
            return False
        sent.session.is_in_flight = sent.session.has_acknowledgements = False
        sent.session.is_reading = False
        if error is Error.NONE:
            self._attempts = 0
            return True
        self._end(sent, error)
        if error in FATAL:
            self.fatal = error
            self.events.append(ConsumerFailed(error))
        elif error not in (Error.SHARE_SESSION_NOT_FOUND, Error.INVALID_SHARE_SESSION_EPOCH):
            self._pause(sent.node, now)
        return False

    def _end(self, sent: LeaderShareRequest, error: Error) -> None:
        del self.sessions[sent.node]
        for topic in sent.topics:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                self._report_batches(place, each.acknowledgement_batches, error)
        self._give_up(sent.session, error)

    def _give_up(self, session: ShareSessionHandler, error: Error) -> None:
        for place, offsets in session.acknowledged.items():
            self._ended(self._names[place], sorted(offsets), error)

    def _settle_acknowledgements(
        self,
        sent: LeaderShareRequest,
        errors: Mapping[TopicPartitionId, Error],
        again: int | None = None,
    ) -> None:
        """Report acknowledgements; those that a response omits have failed.

        `again`: the current time, if temporary failures may be sent again.
        """
        self._acknowledge_after.pop(sent.node, None)
        for topic in sent.topics:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                error = errors.get(place, Error.INVALID_RECORD_STATE)
                if again is not None and error in RETRIABLE - OF_ANOTHER_LEADER:
                    sent.session.put_back(place, each.acknowledgement_batches)
                    pause = self._settings.retry_backoff.backoff(0, 0.5)
                    self._acknowledge_after[sent.node], self._must_acknowledge = again + pause, True
                else:
                    self._report_batches(place, each.acknowledgement_batches, error)

    def _report_batches(
        self, place: TopicPartitionId, batches: Sequence[Any], error: Error
    ) -> None:
        offsets = [
            offset for each in batches for offset in range(each.first_offset, each.last_offset + 1)
        ]
        if offsets:
            self._ended(self._names[place], offsets, error)

    def _keep(
        self,
        session: ShareSessionHandler,
        place: TopicPartitionId,
        result: ShareFetchResponsePartitionData,
        items: Iterable[tuple[int, Any]],
        until: int,
    ) -> None:
        """Buffer acquired records; offsets without a record are gaps."""
        found = dict(items)
        for acquired in result.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset in found:
                    record = ShareRecord(
                        self._names[place], offset, found[offset], acquired.delivery_count
                    )
                    delivered = _DeliveredRecord(record, place, session)
                    self._buffered.append(_BufferedRecord(delivered, until))
                else:
                    gaps = session.acknowledged.setdefault(place, {})
                    gaps[offset] = AcknowledgeType.GAP
                    self._must_acknowledge = True

    def _wait(self, partition: TopicPartition, now: int) -> None:
        """Wait: the leader returns nothing and may have changed."""
        self.needs_metadata = True
        self._not_before[partition] = now + self._settings.retry_backoff.backoff(0, 0.5)

    def _pause(self, node: int, now: int) -> None:
        self.needs_metadata = True
        pause = self._settings.retry_backoff.backoff(self._attempts, 0.5)
        self._quiet_until[node] = now + pause
        self._attempts += 1
