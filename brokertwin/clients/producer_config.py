"""Producer settings by Kafka's names, and their conflicts.

Source: seed 002; KIP-98, KIP-91, KIP-679; `ProducerConfig` and `KafkaProducer` in Kafka 4.x.

    enable.idempotence    acks other than all, or retries 0    more than five in flight
    not given             idempotence is off                   rejected
    true                  rejected                             rejected
    false                 accepted                             accepted
"""

import msgspec

IN_FLIGHT_MAX = 5
"""Maximum in-flight requests per connection of an idempotent producer.

A broker remembers the last five batches of a producer and does not recognize an older duplicate.
"""

INT32_MAX = 2**31 - 1
DELIVERY_TIMEOUT_MS = 120_000

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


class ProducerConfigError(ValueError):
    """Conflicting settings; the message says which one to change."""


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Field names are Kafka's with `_` for `.`; times in ms, sizes in bytes.

    `enable_idempotence` and `delivery_timeout_ms` are None if not given. Four settings are not
    Kafka's, and the first three can write a record twice. `is_unsafe` omits the checks in the table
    above, so that an experiment can show why they exist. `reset_pid_on_unresolved` applies the rule
    of Kafka 2.0 (seed 002), which replaces the producer id instead of bumping the epoch
    (`clients/producer_id_reset.py`). `rewrites_unacknowledged` applies Kafka's rule instead of the
    one in `transaction_manager.py`. `requests_metadata_for_id` requests metadata before each retry
    of InitProducerId, as `Sender.maybeWaitForProducerId` in Kafka 2.0.
    """

    enable_idempotence: bool | None = None
    acks: str = "all"
    retries: int = INT32_MAX
    max_in_flight_requests_per_connection: int = IN_FLIGHT_MAX
    delivery_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    linger_ms: int = 5
    batch_size: int = 16_384
    max_request_size: int = 1_048_576
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = 0
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reset_pid_on_unresolved: bool = False
    rewrites_unacknowledged: bool = False
    requests_metadata_for_id: bool = False
    is_unsafe: bool = False

    @property
    def acks_code(self) -> int:
        """`acks` in a Produce request: -1, 0 or 1."""
        return ACKS[self.acks]

    @property
    def is_idempotent(self) -> bool:
        """Whether ids and sequences are used; requires a checked configuration."""
        return self.enable_idempotence is True

    @property
    def delivery_ms(self) -> int:
        """Maximum age of a batch; requires a checked configuration."""
        assert self.delivery_timeout_ms is not None
        return self.delivery_timeout_ms


def checked(config: ProducerConfig) -> ProducerConfig:
    """Fill in defaults. Raises ProducerConfigError."""
    if config.acks not in ACKS:
        raise ProducerConfigError(f"acks must be all, -1, 0 or 1, not {config.acks!r}")
    if not 0 <= config.retries <= INT32_MAX:
        raise ProducerConfigError(f"retries must be from 0 to {INT32_MAX}, not {config.retries}")
    if config.max_in_flight_requests_per_connection < 1:
        raise ProducerConfigError("max.in.flight.requests.per.connection must be at least 1")
    if config.partitioner_availability_timeout_ms < 0:
        raise ProducerConfigError("partitioner.availability.timeout.ms must be at least 0")
    if config.transactional_id == "":
        raise ProducerConfigError("transactional.id must not be empty")
    is_idempotent = _idempotence(config)
    if config.transactional_id is not None and not is_idempotent:
        raise ProducerConfigError("to use transactional.id, enable.idempotence must not be off")
    return msgspec.structs.replace(
        config,
        enable_idempotence=is_idempotent,
        delivery_timeout_ms=_delivery_timeout(config),
    )


def _idempotence(config: ProducerConfig) -> bool:
    if config.enable_idempotence is False or config.is_unsafe:
        return config.enable_idempotence is not False
    if config.max_in_flight_requests_per_connection > IN_FLIGHT_MAX:
        raise ProducerConfigError(
            "to use the idempotent producer, set max.in.flight.requests.per.connection to at most"
            f" {IN_FLIGHT_MAX}; it is {config.max_in_flight_requests_per_connection}"
        )
    conflict = ""
    if config.acks_code != -1:
        conflict = f"set acks to all; it is {config.acks}"
    elif config.retries == 0:
        conflict = "set retries above 0"
    if conflict and config.enable_idempotence:
        raise ProducerConfigError(f"to use the idempotent producer, {conflict}")
    return not conflict


def _delivery_timeout(config: ProducerConfig) -> int:
    least = min(config.linger_ms + config.request_timeout_ms, INT32_MAX)
    if config.delivery_timeout_ms is None:
        return max(DELIVERY_TIMEOUT_MS, least)
    if config.delivery_timeout_ms < least:
        raise ProducerConfigError(
            "delivery.timeout.ms must be at least linger.ms + request.timeout.ms, which is"
            f" {least}; it is {config.delivery_timeout_ms}"
        )
    return config.delivery_timeout_ms
