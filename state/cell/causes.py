"""Causes that resume a pending request or an uncommitted write (`resuming.py`)."""

from typing import Any, Final, NamedTuple

from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.state.core.decision import Message


class Replied(NamedTuple):
    """Another machine has replied to a message of the pending request."""

    message: Message
    response: Body


class ResponseReady(NamedTuple):
    """Another decision, or a commit, has the response; None drops the request without one."""

    response: Body | dict[str, Any] | None


class CommitEnded(NamedTuple):
    """The records are committed, or the log has an error."""

    error: Error


class ConditionMet(NamedTuple):
    """The condition of the pending request itself is met."""

    is_time: bool


TIME_UP: Final = ConditionMet(True)
"""The deadline has passed, or a `complete` event ends a held request."""

LOG_CHANGED: Final = ConditionMet(False)
"""A watched log has changed, and the API is ready."""

Cause = ConditionMet | Replied | ResponseReady | CommitEnded
