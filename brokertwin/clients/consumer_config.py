"""Consumer settings by Kafka's names, with current defaults.

Source: `ConsumerConfig`, `GroupRebalanceConfig` in Kafka.
"""

from enum import StrEnum

import msgspec

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff


class GroupProtocol(StrEnum):
    """Assignment by the group's leader, or by its coordinator (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms. Raises ValueError for settings that Kafka rejects.

    `max_poll_interval_ms` is also the rebalance timeout. `fetches_offsets_from_any` sends
    OffsetFetch to any live broker, which forwards it (seed 003).
    """

    group_id: str
    group_instance_id: str | None = None
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    group_remote_assignor: str | None = None
    client_rack: str = ""
    assignors: tuple[AssignorName, ...] = (AssignorName.RANGE, AssignorName.COOPERATIVE_STICKY)
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    default_api_timeout_ms: int = 60_000
    fetches_offsets_from_any: bool = False
    retry_backoff: ExponentialBackoff = retry_backoff()

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat.interval.ms must be below session.timeout.ms")
        if not self.assignors:
            raise ValueError("partition.assignment.strategy must name an assignor")
