"""Streams settings by Kafka's names, with current defaults.

Source: `StreamsConfig` in Kafka; KIP-447 (exactly_once_v2). Times in ms.
"""

from enum import StrEnum

import msgspec

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.producer_config import ProducerConfig

COMMIT_INTERVAL_MS = 30_000
EOS_COMMIT_INTERVAL_MS = 100
LINGER_MS = 100


class Guarantee(StrEnum):
    """`processing.guarantee`."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


class StreamsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a thread; `commit_interval_ms` is None if not given."""

    application_id: str
    processing_guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    num_standby_replicas: int = 0
    commit_interval_ms: int | None = None
    repartition_purge_interval_ms: int = 30_000
    buffered_records_per_partition: int = 1_000
    max_poll_records: int = 1_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    transaction_timeout_ms: int = 10_000
    fetch_max_wait_ms: int = 500
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100

    @property
    def is_exactly_once(self) -> bool:
        """Whether threads use transactions and read committed records."""
        return self.processing_guarantee is Guarantee.EXACTLY_ONCE_V2

    @property
    def commit_ms(self) -> int:
        if self.commit_interval_ms is not None:
            return self.commit_interval_ms
        return EOS_COMMIT_INTERVAL_MS if self.is_exactly_once else COMMIT_INTERVAL_MS

    def consumer(self) -> ConsumerConfig:
        """The consumer settings of a thread, which commits itself."""
        return ConsumerConfig(
            group_id=self.application_id,
            enable_auto_commit=False,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            default_api_timeout_ms=self.default_api_timeout_ms,
        )

    def fetches(self) -> FetchSettings:
        """The fetch settings; starts at the beginning without a commit."""
        return FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST,
            isolation_level=int(self.is_exactly_once),
            max_poll_records=self.max_poll_records,
            fetch_max_wait_ms=self.fetch_max_wait_ms,
        )

    def producer(self, name: str) -> ProducerConfig:
        """The producer settings; `name` fences earlier incarnations."""
        return ProducerConfig(
            linger_ms=LINGER_MS,
            retry_backoff_ms=self.retry_backoff_ms,
            transactional_id=name if self.is_exactly_once else None,
            transaction_timeout_ms=self.transaction_timeout_ms,
        )
