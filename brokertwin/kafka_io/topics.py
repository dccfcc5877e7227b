"""The job's topics: names, creation, and validation of existing ones.

<prefix>.requests           events; LogAppendTime, because a cell clamps event times to it
<prefix>.responses          responses; the gateway chooses the partition (`replyTo`)
<prefix>.offsets.<cluster>  committed offsets in Kafka's own schemas, compacted
<prefix>.records            history of every item
<prefix>.data               bytes of record batches, which events name by locator
<prefix>.segments           sealed segments of batch indexes, compacted
<prefix>.timers             next deadline of each cell, compacted
<prefix>.placement          clusters, brokers, cells, partition counts, compacted
<prefix>.dead-letters       rejected events with reasons
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import (
    ClientProperties,
    check_reachable,
    connection_error,
    made,
    with_kafkas_names,
)
from brokertwin.settings import Settings
from brokertwin.state.core import outputs
from brokertwin.state.core.events import EVENT_BYTES_MAX
from brokertwin.wording import counted, some

REQUESTS = "requests"
DATA = "data"
PLACEMENT = "placement"
KAFKA_TIMEOUT_S = 30.0
LOGIN_S = 2.0
NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
METADATA_POLL_S = 0.05
ADDRESSES_SHOWN = 3
SYSLOG_CRITICAL = 2
ANOTHER = "pass another --prefix and --checkpoint"
"""A checkpoint belongs to the topics of its prefix."""

DEFAULT_REPLICATION = -1
"""The broker's `default.replication.factor`."""

RECORD_OVERHEAD_BYTES = 64 * 1024
"""Overhead of key, headers and batch header above the largest document."""

ROW_BYTES_MAX = EVENT_BYTES_MAX + RECORD_OVERHEAD_BYTES
"""Maximum size of a row: a request, a response, or a dead letter of them."""

DATA_BYTES_MAX = 100 * 1024 * 1024 - RECORD_OVERHEAD_BYTES
"""Maximum batch in `data`: Kafka accepts requests of 100 MiB (`socket.request.max.bytes`)."""

_LARGE_ROWS = {"max.message.bytes": str(ROW_BYTES_MAX)}
_COMPACTED = {"cleanup.policy": "compact", **_LARGE_ROWS}
_PLAIN = {"cleanup.policy": "delete", **_LARGE_ROWS}
_DATA = {
    **_PLAIN,
    "max.message.bytes": str(DATA_BYTES_MAX + RECORD_OVERHEAD_BYTES),
    "message.timestamp.type": "LogAppendTime",
}
"""Retention uses the broker's clock."""

_UNLIMITED = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Everything else can be derived from the request topic. `brokertwin gc` deletes from `data`."""


@dataclass(frozen=True)
class TopicSpec:
    """Specification of a topic.

    Attributes:
        name: name without the prefix.
        partitions: number of partitions at creation.
        settings: Kafka's topic settings, set at creation and validated later.
        at_creation: further settings that may be changed later.
        partitions_fixed: whether another number of partitions is rejected.
    """

    name: str
    partitions: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    at_creation: Mapping[str, str] = field(default_factory=dict)
    partitions_fixed: bool = False


def full_name(prefix: str, topic: str) -> str:
    return f"{prefix}.{topic}"


def specs(settings: Settings) -> list[TopicSpec]:
    """Return all topics that the job reads or writes."""
    events = {**_PLAIN, "message.timestamp.type": "LogAppendTime"}
    return [
        TopicSpec(REQUESTS, settings.requests_partitions, events, _UNLIMITED, True),
        TopicSpec(outputs.RESPONSES, settings.responses_partitions, _PLAIN, partitions_fixed=True),
        TopicSpec(outputs.RECORDS, settings.requests_partitions, _PLAIN),
        TopicSpec(DATA, settings.data_partitions, _DATA, _UNLIMITED, True),
        TopicSpec(outputs.DEAD_LETTERS, 1, _PLAIN),
        *(TopicSpec(outputs.offsets_topic(name), 1, _COMPACTED) for name in settings.clusters),
        TopicSpec(outputs.SEGMENTS, 1, _COMPACTED),
        TopicSpec(outputs.TIMERS, 1, _COMPACTED),
        TopicSpec(PLACEMENT, 1, _COMPACTED),
    ]


def admin_client(client: ClientProperties) -> AdminClient:
    return made(AdminClient, quiet(client))


def quiet(client: ClientProperties) -> dict[str, Any]:
    """Return the configuration of a confluent-kafka client that prints nothing."""
    return {**client.for_confluent(), "error_cb": lambda _: None, "log_level": SYSLOG_CRITICAL}


def login_error(client: ClientProperties) -> str | None:
    """Return why Kafka rejects a login with these properties, or None.

    Clients retry a failed login, and their calls only report a timeout.
    """
    errors: list[KafkaError] = []
    configuration: dict[str, Any] = {**quiet(client), "error_cb": errors.append}
    admin = AdminClient(configuration)
    with suppress(KafkaException):
        admin.list_topics(timeout=LOGIN_S)
    admin.poll(0)
    texts = (error.str() for error in errors if error.code() in NOT_LET_IN)
    return next((with_kafkas_names(text.partition(" (after ")[0]) for text in texts), None)


def writer_configuration(client: ClientProperties) -> dict[str, Any]:
    """Return the configuration of an idempotent confluent-kafka Producer."""
    return {
        **quiet(client),
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.max.bytes": ROW_BYTES_MAX,
    }


def check(
    client: ClientProperties, settings: Settings, read_partitions: int | None = None
) -> str | None:
    """Validate existing topics without creating any.

    Args:
        client: the connection to Kafka.
        settings: the current settings.
        read_partitions: partitions of `requests` that the checkpoint has read; None for a new one.

    Returns:
        Kafka's id of the topic `requests`, or None if it does not exist.

    Raises:
        UserError: as `prepare`.
    """
    admin = admin_client(client)
    topic_specs = {full_name(settings.prefix, spec.name): spec for spec in specs(settings)}
    there = existing(admin, client)
    requests = full_name(settings.prefix, REQUESTS)
    if requests in there and read_partitions not in (None, there[requests]):
        raise UserError(
            f"The topic {requests} has {counted(there[requests], 'partition')}, but had"
            f" {read_partitions} when the checkpoint was made, so events of a cell may be in others"
            " now.",
            f"No requests_partitions lets it continue: {ANOTHER}.",
        )
    _check(admin, {name: spec for name, spec in topic_specs.items() if name in there}, there)
    return topic_id(admin, requests) if requests in there else None


def prepare(
    client: ClientProperties, settings: Settings, say: Callable[[str], None] = lambda _: None
) -> str:
    """Create missing topics and validate existing ones.

    Returns:
        Kafka's id of the topic `requests`; a recreated topic has another one.

    Raises:
        UserError: Kafka cannot be reached, or a topic has unsuitable settings.
    """
    admin = admin_client(client)
    topic_specs = {full_name(settings.prefix, spec.name): spec for spec in specs(settings)}
    there = existing(admin, client)
    if create_missing(admin, topic_specs, there, say):
        there = existing(admin, client)  # a new topic may have been missing from the list
    _check(admin, topic_specs, there)
    return topic_id(admin, full_name(settings.prefix, REQUESTS))


def _check(
    admin: AdminClient, topic_specs: Mapping[str, TopicSpec], there: Mapping[str, int]
) -> None:
    """Reject unsuitable topics. Raises UserError."""
    for name, spec in topic_specs.items():
        found = there.get(name, spec.partitions)
        if spec.partitions_fixed and found != spec.partitions:
            raise UserError(
                f"The topic {name} has {counted(found, 'partition')}, but the settings have"
                f" {spec.partitions}.",
                f"Set {spec.name}_partitions = {found}, or {ANOTHER}.",
            )
    _check_settings(admin, topic_specs)


def existing(admin: AdminClient, client: ClientProperties) -> dict[str, int]:
    """Return topic names with numbers of partitions. Raises UserError as `metadata`."""
    topics = metadata(admin, client).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def metadata(admin: AdminClient, client: ClientProperties) -> ClusterMetadata:
    """Return brokers and topics.

    Raises:
        UserError: Kafka does not respond, or no broker accepts connections at the address that it
            advertises.
    """
    check_reachable(client.bootstrap)
    for timeout_s in (LOGIN_S, KAFKA_TIMEOUT_S):  # a rejected login would be repeated all the time
        try:
            listed = admin.list_topics(timeout=timeout_s)
            break
        except KafkaException as error:
            why = login_error(client) or (error.args[0].str() if timeout_s > LOGIN_S else None)
            if why is not None:
                raise no_response(client, why) from None
    brokers = list(listed.brokers.values())
    if _unreachable(brokers[:1]) and len(wrong := _unreachable(brokers)) == len(brokers):
        raise _advertised(client, wrong)
    return listed


def _unreachable(brokers: Collection[Any]) -> dict[str, str]:
    """Return the advertised addresses that accept no connection, with the reasons."""
    with ThreadPoolExecutor(max(len(brokers), 1)) as pool:
        errors = list(pool.map(lambda each: connection_error(each.host, each.port), brokers))
    return {
        f"{broker.host}:{broker.port}": error
        for broker, error in zip(brokers, errors, strict=True)
        if error is not None
    }


def _advertised(client: ClientProperties, unreachable: Mapping[str, str]) -> UserError:
    return UserError(
        f"Kafka at {client.bootstrap} advertises {some(list(unreachable), ADDRESSES_SHOWN)}, which"
        f" this machine cannot reach: {', '.join(dict.fromkeys(unreachable.values()))}.",
        "Run the command where that name resolves (in a pod), or pass the address of a listener"
        " that advertises a reachable name.",
    )


def timeout_error(client: ClientProperties, why: str) -> UserError:
    """Return the error of a request that timed out: its cause, or else `why`."""
    login = login_error(client)
    if login is None:
        listed = metadata(admin_client(client), client)
        if wrong := _unreachable(listed.brokers.values()):
            return _advertised(client, wrong)
    return no_response(client, login or why)


def no_response(client: ClientProperties, why: str) -> UserError:
    return UserError(
        f"Kafka at {client.bootstrap} did not respond: {why}.",
        f"Check that the listener at this address is {client.protocol}, and check --kafka-config"
        " and the network.",
    )


def topic_id(admin: AdminClient, name: str) -> str:
    """Return Kafka's topic id (KIP-516); wait until the broker knows a new topic."""
    deadline = time.monotonic() + KAFKA_TIMEOUT_S
    while True:
        topics = TopicCollection([name])
        described = admin.describe_topics(topics, request_timeout=KAFKA_TIMEOUT_S)
        try:
            return str(described[name].result().topic_id)
        except KafkaException as error:
            is_new = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not is_new or time.monotonic() >= deadline:
                raise
        time.sleep(METADATA_POLL_S)


def create_missing(
    admin: AdminClient,
    topic_specs: Mapping[str, TopicSpec],
    there: Collection[str],
    say: Callable[[str], None],
) -> bool:
    """Create the missing topics and wait until the broker knows them; return whether any was.

    Raises:
        UserError: as `create`.
    """
    missing = {name: spec for name, spec in topic_specs.items() if name not in there}
    create(admin, missing)
    for name in missing:
        topic_id(admin, name)
    if missing:
        say(f"created topics: {', '.join(missing)}")
    return bool(missing)


def create(admin: AdminClient, missing: Mapping[str, TopicSpec]) -> None:
    """Create topics by their full names; existing ones are no error.

    Raises:
        UserError: Kafka does not create one of them.
    """
    if not missing:
        return
    new = [
        NewTopic(
            name,
            num_partitions=spec.partitions,
            replication_factor=DEFAULT_REPLICATION,
            config={**spec.settings, **spec.at_creation},
        )
        for name, spec in missing.items()
    ]
    for name, created in admin.create_topics(new, operation_timeout=KAFKA_TIMEOUT_S).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise UserError(
                    f"Could not create the topic {name}: {error.args[0].str()}.",
                    "Create it by hand, or allow this user to create it.",
                ) from None


def _check_settings(admin: AdminClient, there: Mapping[str, TopicSpec]) -> None:
    """Reject existing topics with other settings. Raises UserError."""
    if not there:
        return
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in there]
    for resource, described in admin.describe_configs(resources).items():
        configs: dict[str, Any] = described.result(KAFKA_TIMEOUT_S)
        for setting, wanted in there[resource.name].settings.items():
            value = configs[setting].value
            if not _suffices(setting, value, wanted):
                raise UserError(
                    f"The topic {resource.name} has {setting}={value} but needs {wanted}.",
                    f"Change it with kafka-configs.sh, or {ANOTHER}.",
                )


def _suffices(setting: str, value: str, wanted: str) -> bool:
    if setting == "max.message.bytes":
        return int(value) >= int(wanted)
    return value == wanted
