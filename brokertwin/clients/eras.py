"""Settings of the clients of former Kafka versions.

Source: seeds 000 to 002; `ProducerConfig`, `ConsumerConfig`, `Metadata` in Kafka 0.10.1 and 2.0.

                           0.10                        2.0                      today
    metadata               full updates only           full updates only        also partial ones
    retry.backoff.ms       constant                    constant                 exponential
    while it connects      selects for 0 ms            reconnect.backoff.ms     reconnect.backoff.ms
    records without a key  round robin                 round robin              sticky
    acks, linger.ms        1, 0                        1, 0                     all, 5
    idempotence            none                        off, on request          on
    lost sequence          -                           new producer id          next epoch
    fetch sessions         none                        yes                      yes
    assignors              range                       range                    Kafka 4's

Versions of requests are always today's, because current brokers accept no older ones.
"""

import msgspec

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.era import Era
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.producer_config import ProducerConfig, ProducerConfigError


def metadata_settings(era: Era | None) -> MetadataSettings:
    """The metadata settings of a client; None is today's."""
    if era is None:
        return MetadataSettings()
    return MetadataSettings(refresh_backoff=constant_backoff(), era=era)


def producer_config(era: Era | None, *, is_idempotent: bool = False) -> ProducerConfig:
    """The default settings of a producer; `is_idempotent` if its user asks for idempotence.

    Raises ProducerConfigError if the version has no idempotence.
    """
    if era is None:
        return ProducerConfig(enable_idempotence=is_idempotent or None)
    if not is_idempotent:
        return ProducerConfig(
            acks="1", linger_ms=0, enable_idempotence=False, retry_backoff_max_ms=100
        )
    if era is Era.KAFKA_0_10:
        raise ProducerConfigError("Kafka 0.10 has no idempotent producer; use --era 2.0")
    return ProducerConfig(
        linger_ms=0,
        enable_idempotence=True,
        retry_backoff_max_ms=100,
        reset_pid_on_unresolved=True,
        requests_metadata_for_id=True,
    )


def of_consumer(era: Era | None, config: ConsumerConfig) -> ConsumerConfig:
    if era is None:
        return config
    is_default = config.assignors == ConsumerConfig(group_id="").assignors
    assignors = (AssignorName.RANGE,) if is_default else config.assignors
    return msgspec.structs.replace(config, assignors=assignors, retry_backoff=constant_backoff())


def of_fetches(era: Era | None, settings: FetchSettings) -> FetchSettings:
    """A consumer's fetch settings; before KIP-227 there were no sessions."""
    return msgspec.structs.replace(settings, uses_sessions=era is not Era.KAFKA_0_10)
