"""Settings of single groups (KIP-1071's `GROUP`), which need not exist.

A coordinator reads them at each heartbeat, so a change applies at a member's next one.
"""

from brokertwin.state.cluster import given_configs
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs import durations, group_configs, topic_configs
from brokertwin.state.configs.config_keys import trim
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.topic_configs import TAKES_DEAD_LETTERS as TAKES_DEAD_LETTERS
from brokertwin.state.logs.log import READ_COMMITTED

_NANOS_IN_MS = 1_000_000
_AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"


def group_ids(broker: Broker) -> list[str]:
    """Sorted groups with settings, including groups that do not exist."""
    return given_configs.names(broker, given_configs.GROUPS)


def _number(broker: Broker, group_id: str, name: str, default: int) -> int:
    own = given_configs.of(broker, given_configs.GROUPS, group_id)
    return group_configs.number(name, own, broker.settings) if name in own else default


def session_timeout_ms(broker: Broker, group_id: str) -> int:
    """Time without a heartbeat after which a consumer group removes a member."""
    default = broker.settings.group_consumer_session_timeout_ms
    return _number(broker, group_id, group_configs.SESSION, default)


def heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    default = broker.settings.group_consumer_heartbeat_interval_ms
    return _number(broker, group_id, group_configs.HEARTBEAT, default)


def share_session_timeout_ms(broker: Broker, group_id: str) -> int:
    """Time without a heartbeat after which a share group removes a member."""
    return of_kind(broker, group_id, "share.session.timeout.ms")


def share_heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    return of_kind(broker, group_id, "share.heartbeat.interval.ms")


def share_assignment_interval_ms(broker: Broker, group_id: str) -> int:
    return of_kind(broker, group_id, "share.assignment.interval.ms")


def of_kind(broker: Broker, group_id: str, name: str) -> int:
    """A setting of a share or streams group, else the broker's."""
    own = given_configs.of(broker, given_configs.GROUPS, group_id)
    return group_configs.number(name, own, broker.settings)


def share_flag(broker: Broker, group_id: str, name: str) -> bool:
    return _share_text(broker, group_id, name) == "true"


def share_offset_reset(broker: Broker, group_id: str) -> str:
    """Where a share group starts: `earliest`, `latest`, or `by_duration:` and a duration."""
    return _share_text(broker, group_id, "share.auto.offset.reset")


def since_ms(reset: str) -> int | None:
    """Milliseconds of `by_duration:` and a duration; None if invalid."""
    nanoseconds = durations.nanoseconds(reset.removeprefix(group_configs.BY_DURATION))
    return None if nanoseconds is None else nanoseconds // _NANOS_IN_MS


def share_isolation(broker: Broker, group_id: str) -> int:
    """Isolation level of a share group, as in Fetch: 1 for committed records only."""
    level = _share_text(broker, group_id, "share.isolation.level")
    return READ_COMMITTED if level == "read_committed" else 0


def _share_text(broker: Broker, group_id: str, name: str) -> str:
    own = given_configs.of(broker, given_configs.GROUPS, group_id)
    default = group_configs.GROUP_CONFIGS[name].default or ""
    return trim(own.get(name, default)).lower()


def dead_letters_to(broker: Broker, group_id: str) -> str:
    """Name of the topic for a share group's dead letters (KIP-1191); empty if there is none."""
    own = given_configs.of(broker, given_configs.GROUPS, group_id)
    return trim(own.get(group_configs.DEAD_LETTERS, ""))


def dead_letter_topic(broker: Broker, group_id: str) -> Topic | None:
    """Topic for a share group's dead letters, if it exists and may be used."""
    name = dead_letters_to(broker, group_id)
    topic = broker.topic_by_name(name)
    if topic is None or not name.startswith(_prefix(broker)):
        return None
    is_enabled = topic_configs.value_of(TAKES_DEAD_LETTERS, topic.configs, broker.settings)
    return topic if is_enabled is True else None


def creates_dead_letter_topic(broker: Broker, group_id: str) -> bool:
    """True if brokers create the topic for a share group's dead letters, which is missing."""
    name = dead_letters_to(broker, group_id)
    is_missing = broker.topic_by_name(name) is None and name.startswith(_prefix(broker))
    return is_missing and _text(broker, _AUTO_CREATE).lower() == "true"


def _prefix(broker: Broker) -> str:
    return _text(broker, _PREFIX)


def _text(broker: Broker, name: str) -> str:
    return trim(broker.settings.given.get(name, KAFKA_SETTINGS[name].default or ""))


def share_max_sessions(broker: Broker) -> int:
    return group_configs.of_broker("group.share.max.share.sessions", broker.settings)


def share_max_size(broker: Broker) -> int:
    return group_configs.of_broker("group.share.max.size", broker.settings)


def share_initialize_retry_ms(broker: Broker) -> int:
    """Retry interval for a share coordinator that does not respond."""
    name = "group.share.initialize.retry.interval.ms"
    return group_configs.of_broker(name, broker.settings)


def streams_session_timeout_ms(broker: Broker, group_id: str) -> int:
    """Time without a heartbeat after which a streams group removes a member."""
    return of_kind(broker, group_id, "streams.session.timeout.ms")


def streams_heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    return of_kind(broker, group_id, "streams.heartbeat.interval.ms")


def streams_assignment_interval_ms(broker: Broker, group_id: str) -> int:
    return of_kind(broker, group_id, "streams.assignment.interval.ms")


def streams_initial_rebalance_delay_ms(broker: Broker, group_id: str) -> int:
    """How long a streams group waits for more members after the first."""
    return of_kind(broker, group_id, "streams.initial.rebalance.delay.ms")


def streams_standby_replicas(broker: Broker, group_id: str) -> int:
    return of_kind(broker, group_id, "streams.num.standby.replicas")


def streams_max_size(broker: Broker) -> int:
    return group_configs.of_broker("group.streams.max.size", broker.settings)


def assignment_interval_ms(broker: Broker, group_id: str) -> int:
    default = broker.settings.group_consumer_assignment_interval_ms
    return _number(broker, group_id, group_configs.ASSIGNMENT, default)
