"""Pending requests: how a decision suspends one, and the one place that resumes it.

decision with a condition    the request is pending until the condition is met
decision with records        its response is pending until they are committed, if their log
                             has followers (`committing.py`)
response without records     the same for earlier writes that it can depend on
                             (`Api.earlier_writes`)

cause to resume              continues with
TIME_UP, LOG_CHANGED         `complete` of its API
Replied                      `resume` of its API
ResponseReady                the response in another request's decision
CommitEnded                  the response that was ready, or that for the log's error
"""

from abc import abstractmethod
from collections import Counter
from typing import Any

from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import committing
from brokertwin.state.cell.causes import (
    LOG_CHANGED,
    TIME_UP,
    Cause,
    CommitEnded,
    Replied,
    ResponseReady,
)
from brokertwin.state.cell.metadata_reading import MetadataReading
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import (
    CONTROLLER,
    AnyRequest,
    Condition,
    Decision,
    Message,
    PendingRequest,
)
from brokertwin.state.core.pending import Pending, PendingCommit
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.eras import replication_lines
from brokertwin.state.replication import internal_logs
from brokertwin.state.replication.internal_logs import WrittenRecords
from brokertwin.state.transactions import transactional_ids


class Resuming(MetadataReading):
    """The part of the loop that suspends and resumes requests; `CellLoop` is all of it."""

    _given: BrokerSettings
    _has_internal_logs: bool
    _is_alone: bool
    """Whether the cluster has one broker, so that nothing waits for followers."""

    @abstractmethod
    def _publish(self, machine: int, record: Record) -> None: ...

    @abstractmethod
    def _caused_by(self, event_id: str) -> None: ...

    @abstractmethod
    def _deliver_reply(self, message: Message, response: Body) -> None: ...

    @abstractmethod
    def _is_held(self) -> bool: ...

    # Suspend

    def _carry_out(self, machine: int, source: AnyRequest, api: Api, decision: Decision) -> None:
        """Carry out a decision on a client's request: respond, or suspend it."""
        condition, records = decision.condition, decision.records
        if condition is not None:
            self._suspend(source, api, condition)
            for message in decision.messages:
                message.awaited_by = source.event_id
        if records:
            if self._is_alone:
                self._apply_all(machine, records)
            elif self._write(machine, decision, source):
                return
        if decision.messages or decision.copies or decision.woken or decision.resumed:
            self._send(machine, decision)
        if condition is not None:
            return
        if not self._is_alone and self._awaits_earlier(machine, decision, source):
            return
        closes, mute_ms = decision.closes_connection, decision.mute_ms
        self._rows.response(source, self._now, decision.response, closes, mute_ms)

    def _carry_on(self, machine: int, decision: Decision, reply_to: Message | None = None) -> bool:
        """Carry out another decision; return whether the reply to a message is suspended."""
        if decision.records and self._write(machine, decision, reply_to=reply_to):
            return True
        self._send(machine, decision)
        return self._awaits_earlier(machine, decision, reply_to=reply_to)

    def _suspend(self, source: AnyRequest, api: Api, condition: Condition) -> None:
        is_held = source.is_held if isinstance(source, PendingRequest) else self._is_held()
        request = PendingRequest(
            event_id=source.event_id,
            broker=source.broker,
            api_key=api.key,
            deadline=condition.deadline,
            header=source.header,
            connection=source.connection,
            principal=source.principal,
            reply_to=source.reply_to,
            logs=condition.logs,
            state=condition.state,
            is_held=is_held,
        )
        pending.add(self._tables.pending, request)

    def _write(
        self,
        machine: int,
        decision: Decision,
        request: AnyRequest | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        """Apply the records; return whether the rest is suspended until they are committed."""
        written = None
        if machine != CONTROLLER and not self._is_alone:
            written = internal_logs.write(self._broker(machine), decision.records)
        if written is None:
            self._apply_all(machine, decision.records)
            return False
        broker = self._broker(machine)
        for record in self._with_rows(machine, written.records):
            self._effects.apply(machine, record, False)
        for record in transactional_ids.placeholder_records(broker, decision.records):
            self._effects.apply(machine, record)
        if written.error is not Error.NONE:
            committing.refuse(broker, decision, request, written.error)
            return False
        committing.suspend(broker, written, decision, request, reply_to)
        at_once = [
            each for each in decision.messages if not committing.is_sent_when_committed(each)
        ]
        self._delivery.send([*at_once, *decision.copies])
        return True

    def _awaits_earlier(
        self,
        machine: int,
        decision: Decision,
        request: AnyRequest | None = None,
        reply_to: Message | None = None,
    ) -> bool:
        """Suspend a response without records if it depends on uncommitted earlier writes."""
        if machine == CONTROLLER or self._is_alone or decision.response is None:
            return False
        broker = self._broker(machine)
        required = committing.earlier(broker, decision.response, request, reply_to)
        if required:
            response = Decision(response=decision.response)
            committing.suspend(
                broker, WrittenRecords([], [], required), response, request, reply_to
            )
        return bool(required)

    def _apply_all(self, machine: int, records: list[Record]) -> None:
        """Apply the records of a decision that need no followers."""
        if self._has_internal_logs:
            records = self._with_rows(machine, records)
        apply = self._effects.apply
        for record in records:
            if apply(machine, record):
                self._publish(machine, record)

    def _with_rows(self, machine: int, records: list[Record]) -> list[Record]:
        """Add the batches of logs without followers, if internal topics can be read."""
        if machine == CONTROLLER or not self._has_internal_logs:
            return records
        return internal_logs.with_rows(self._broker(machine), records)

    def _send(self, machine: int, decision: Decision) -> None:
        """Send messages, note woken logs, and resume other requests."""
        if decision.messages or decision.copies:
            self._delivery.send([*decision.messages, *decision.copies])
        for log in decision.woken:
            self._effects.log_changed(machine, log)
        for each in decision.resumed:
            self.resume(each.event_id, ResponseReady(each.response))

    # Resume

    def resume(self, event_id: str, cause: Cause) -> None:
        """Continue a pending request or write; without effect if it has ended."""
        taken = pending.take(self._tables.pending, event_id)
        if isinstance(taken, PendingCommit):
            error = cause.error if isinstance(cause, CommitEnded) else Error.REQUEST_TIMED_OUT
            self._finish(taken, error)
        elif taken is not None and isinstance(cause, ResponseReady):
            self._respond(taken, cause.response)
        elif taken is not None:
            api, broker = BUILT[taken.api_key], self._broker(taken.broker)
            if isinstance(cause, Replied):
                assert api.resume is not None, api.name
                decision = api.resume(broker, taken, cause.message, cause.response)
            else:
                if cause is TIME_UP:
                    self._caused_by(event_id)
                assert api.complete is not None, api.name
                decision = api.complete(broker, taken)
            self._carry_out(taken.broker, taken, api, decision)

    def drop(self, event_id: str) -> None:
        """End a pending request or write at a broker that stops; the client is disconnected."""
        taken = pending.take(self._tables.pending, event_id)
        if isinstance(taken, PendingRequest):
            self._rows.response(taken, self._now, None, closes_connection=True)

    def _respond(self, request: PendingRequest, response: Body | dict[str, Any] | None) -> None:
        if response is not None:
            self._rows.response(request, self._now, response)

    def _finish(self, commit: PendingCommit, error: Error) -> None:
        """Send the responses and messages that have waited for a commit."""
        outcome = committing.finish(self._broker(commit.broker), commit, error)
        for record in outcome.records:
            self._apply(commit.broker, record)
        for record in outcome.rows:
            self._rows.of_group(record)
        synced = committing.finished(self._broker(commit.broker), commit, error)
        for event_id, response in outcome.responses:
            self.resume(event_id, ResponseReady(response))
        self._delivery.send(outcome.messages)
        for message, reply in outcome.replies:
            self._deliver_reply(message, reply)
        for decision in synced:
            self._carry_on(commit.broker, decision)

    def _wake(self, watched: str, log: str) -> None:
        """Resume the requests and writes on a log or a session whose conditions are met."""
        unblocked: Counter[str] = Counter()
        for event_id in pending.watchers(self._tables.pending, watched):
            watcher = pending.get(self._tables.pending, event_id)
            cause = self._met(watcher) if watcher is not None and not watcher.is_held else None
            if cause is not None:
                if isinstance(watcher, PendingRequest):
                    unblocked[BUILT[watcher.api_key].name] += 1
                self.resume(event_id, cause)
        if self._given.brokertwin_trace_replication:
            for line in replication_lines.unblocked(self._tables, watched, log, unblocked):
                self._apply(int(log.partition("/")[0]), line)

    def _met(self, watcher: Pending) -> Cause | None:
        """Return why a changed log resumes something pending, or None if it does not."""
        broker = self._broker(watcher.broker)
        if isinstance(watcher, PendingCommit):
            error = committing.error_of(broker, watcher)
            return None if error is None else CommitEnded(error)
        api = BUILT[watcher.api_key]
        assert api.ready is not None, api.name
        return LOG_CHANGED if api.ready(broker, watcher) else None
