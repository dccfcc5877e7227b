"""Changes of settings, as AlterConfigs and IncrementalAlterConfigs ask for them.

What is wrong with a request's form is seen first, by the broker in Kafka: a resource that is there
twice, a setting that is there twice, null where a value is needed, a type of resources that there
is not. The broker looks at its own settings, too, as they would be together: whether they are its
own, and may change while it runs (`state/configs/dynamic_configs.py`). Then come, at the
controller, authorization, the operations, the topic's name, a topic's settings as they would be
together, and whether there is such a topic. An operation that there is not is the broker's own
INVALID_REQUEST for its settings; of others all that reaches the controller is UNKNOWN_SERVER_ERROR.
So it is where the controller says a longer text than the wire has room for, but for what it did.

Where the cluster has eligible leader replicas (KIP-966), `min.insync.replicas` lies at the level of
the cluster and stays there: no broker has it for itself, and it is never removed. With another
value, of a topic or of the cluster, nobody is eligible any more, nor the last known leader; there
also with the same.

Source: `ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator` in
Kafka; answers of 4.3.1. Not done: the loggers of brokers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import compress
from typing import NamedTuple

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import broker_configs, given_configs, group_configs, topics
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.configs import client_metrics, dynamic_configs, topic_configs
from brokertwin.state.configs import group_configs as keys_of_groups
from brokertwin.state.configs.config_keys import ConfigKey, Type
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.topic_configs import MIN_IN_SYNC
from brokertwin.state.core.api import NotBuilt
from brokertwin.state.core.decision import Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import ConfigChanged, PartitionAltered
from brokertwin.state.core.wire.primitives import STRING_BYTES_MAX

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
_BROKER_ID = re.compile(r"[+-]?[0-9]{1,10}")


class Change(IntEnum):
    """What is to become of a setting: `configOperation` in requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_CHANGES = frozenset(Change)


class Setting(NamedTuple):
    """A setting and what is to become of it; `change` may be none that Kafka has."""

    name: str
    change: int
    value: str | None


class Resource(NamedTuple):
    """The settings of a resource that are to change; `is_complete`: all others are to go.

    `store_fault` is what the edge has against the key and trust stores of the broker asked.
    """

    resource_type: int
    name: str
    settings: list[Setting]
    is_complete: bool = False
    store_fault: str | None = None


class Outcome(NamedTuple):
    """What becomes of a resource: an error in Kafka's words, or records."""

    error: Error = Error.NONE
    text: str | None = None
    records: list[ConfigChanged | PartitionAltered] = []


_LOST = Outcome(Error.UNKNOWN_SERVER_ERROR)


def outcomes(
    controller: Controller,
    request: Request,
    resources: Sequence[Resource],
    built_elsewhere: Mapping[int, str],
) -> list[Outcome]:
    """One outcome for each resource.

    Args:
        controller: the controller.
        request: who asks.
        resources: what is to change.
        built_elsewhere: the types of resources that Kafka has beside these, in words.

    Raises:
        NotBuilt: a resource is of such a type.
    """
    counts = Counter((resource.resource_type, resource.name) for resource in resources)
    faults = [_fault_of_form(each, counts[each.resource_type, each.name]) for each in resources]
    are_lost = any(
        fault is None and not _CHANGES.issuperset(setting.change for setting in resource.settings)
        for fault, resource in zip(faults, resources, strict=True)
    )
    may_alter = controller.allows_cluster(request, Operation.ALTER_CONFIGS)
    found = []
    for resource, fault in zip(resources, faults, strict=True):
        words = built_elsewhere.get(resource.resource_type)
        if words is None:
            found.append(fault or _decided(controller, request, resource, are_lost))
        elif may_alter:
            raise NotBuilt(f"changes of the settings of {words}")
        else:
            found.append(Outcome(Error.CLUSTER_AUTHORIZATION_FAILED))
    return _as_forwarded(resources, faults, found)


def _as_forwarded(
    resources: Sequence[Resource], faults: list[Outcome | None], found: list[Outcome]
) -> list[Outcome]:
    """Outcomes, where the controller's answer cannot be written: a text of its is too long.

    The broker that has forwarded the request answers for what it has refused itself, by the form
    or as a broker's; of the others it knows nothing, and what they have changed holds.
    """
    is_forwarded = [
        fault is None and not (each.resource_type == BROKER and outcome.error)
        for each, fault, outcome in zip(resources, faults, found, strict=True)
    ]
    texts = [each.text or "" for each in compress(found, is_forwarded)]
    if not any(len(text.encode()) > STRING_BYTES_MAX for text in texts):
        return found
    return [
        _LOST._replace(records=each.records) if is_lost else each
        for each, is_lost in zip(found, is_forwarded, strict=True)
    ]


def _decided(
    controller: Controller, request: Request, resource: Resource, are_lost: bool
) -> Outcome:
    """What becomes of a resource whose form is right; `are_lost`: the controller fails at one."""
    if are_lost and resource.resource_type != BROKER:
        return _LOST
    decided = _OF_TYPE[resource.resource_type](controller, request, resource)
    return _LOST if are_lost and decided.error is Error.NONE else decided


def _fault_of_form(resource: Resource, count: int) -> Outcome | None:
    if count > 1:
        return Outcome(Error.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [setting.name for setting in resource.settings]
    if len(set(names)) < len(names):
        return Outcome(Error.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [s.name for s in resource.settings if s.value is None and s.change != Change.DELETE]
    if nulls:
        text = f"Null value not supported for : {', '.join(nulls)}"
        return Outcome(Error.INVALID_REQUEST, text)
    if resource.resource_type not in _OF_TYPE:
        return Outcome(Error.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    unknown = [setting.change for setting in resource.settings if setting.change not in _CHANGES]
    if unknown and resource.resource_type == BROKER:
        return Outcome(Error.INVALID_REQUEST, f"Unknown operations type {unknown[0]}")
    return None


def _of_broker(controller: Controller, request: Request, resource: Resource) -> Outcome:
    """What becomes of a broker's settings, or of those of all brokers, which have no name."""
    fault = _name_fault(request.broker, resource.name) if resource.name else None
    if fault is not None:
        return Outcome(Error.INVALID_REQUEST, fault)
    before = broker_configs.of_resource(controller.tables.metadata, controller.id, resource.name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _list_of_broker)
        if fault is not None:
            return Outcome(Error.INVALID_CONFIG, fault)
    given = controller.cell.broker_settings
    now = broker_configs.settings_of(
        controller.tables.metadata, controller.id, request.broker, given
    )
    of_stores = resource.store_fault if resource.name else None
    fault = dynamic_configs.fault(after, bool(resource.name), given, now, of_stores)
    if fault is not None:
        return Outcome(Error.INVALID_REQUEST, fault)
    if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):
        return Outcome(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    has_eligible = controller.settings.has_eligible_replicas
    fault = _cluster_fault(resource) if has_eligible else None
    if fault is not None:
        return Outcome(Error.INVALID_CONFIG, fault)
    hidden = {name: "" for name in after if dynamic_configs.is_secret(name)}
    is_named = any(setting.name == MIN_IN_SYNC for setting in resource.settings)
    no_more = _eligible_no_more(controller, controller.all_topics()) if is_named else []
    return Outcome(records=[*_records(resource, before, after | hidden), *no_more])


def _eligible_no_more(controller: Controller, topics: Iterable[Topic]) -> list[PartitionAltered]:
    """What makes nobody eligible to lead any more, nor the last known leader."""
    if not controller.settings.has_eligible_replicas:
        return []
    return [
        PartitionAltered(topic.topic_id, number, eligible_leader_replicas=[], last_known_elr=[])
        for topic in topics
        for number, partition in enumerate(topic.partitions)
        if partition.eligible_leader_replicas or partition.last_known_elr
    ]


def is_broker_id(name: str) -> bool:
    """Whether Java reads a name as an integer."""
    return bool(_BROKER_ID.fullmatch(name)) and -(2**31) <= int(name) < 2**31


def _name_fault(asked: int, name: str) -> str | None:
    """A broker takes its own settings only."""
    if not is_broker_id(name):
        return f"Node id must be an integer, but it is: {name}"
    if int(name) != asked:
        return f"Unexpected broker id, expected {asked}, but received {name}"
    return None


def _cluster_fault(resource: Resource) -> str | None:
    """What lies at the level of the cluster stays there."""
    changes = {setting.name: setting.change for setting in resource.settings}
    if resource.name:
        is_named = MIN_IN_SYNC in changes
        text = f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled."
        return text if is_named else None
    goes = Change.DELETE if resource.is_complete else None
    if changes.get(MIN_IN_SYNC, goes) == Change.DELETE:
        return f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled."
    return None


def _of_topic(controller: Controller, request: Request, resource: Resource) -> Outcome:
    if not controller.allows_topic(request, Operation.ALTER_CONFIGS, resource.name):
        return Outcome(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    topic = controller.topic_by_name(resource.name)
    before = topic.configs if topic is not None else {}
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _list_of_topic)
        if fault is not None:
            return Outcome(Error.INVALID_CONFIG, fault)
    if not resource.name:
        return Outcome(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
    fault = topics.name_error(resource.name)
    if fault is not None:
        return Outcome(Error.INVALID_TOPIC_EXCEPTION, fault)
    fault = topic_configs.validate(after, controller.settings)
    if fault is not None:
        return Outcome(Error.INVALID_CONFIG, fault)
    if topic is None:
        text = f"The topic '{resource.name}' does not exist."
        return Outcome(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    changed = _records(resource, before, after)
    is_named = any(each.name == MIN_IN_SYNC for each in changed)
    return Outcome(records=[*changed, *_eligible_no_more(controller, [topic] if is_named else [])])


def _of_group(controller: Controller, request: Request, resource: Resource) -> Outcome:
    """What becomes of a group's settings; the group itself need not be there."""
    name = resource.name
    if not controller.allows(request, Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
        return Outcome(Error.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    before = group_configs.of_group(controller.tables.metadata, controller.id, name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _no_list)
        if fault is not None:
            return Outcome(Error.INVALID_CONFIG, fault)
    if not name:
        return Outcome(Error.INVALID_REQUEST, "Default group resources are not allowed.")
    fault = keys_of_groups.fault(after, controller.settings)
    if fault is not None:
        return Outcome(Error.INVALID_CONFIG, fault)
    return Outcome(records=[*_records(resource, before, after)])


def _of_client_metrics(controller: Controller, request: Request, resource: Resource) -> Outcome:
    """What becomes of a subscription to the metrics of clients."""
    if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):
        return Outcome(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    kind = given_configs.CLIENT_METRICS
    before = given_configs.of(controller.tables.metadata, controller.id, kind, resource.name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        text = _change(after, setting, _no_list)
        if text is not None:
            return Outcome(Error.INVALID_CONFIG, text)
    if not resource.name:
        return Outcome(Error.INVALID_REQUEST, "Subscription name can't be empty")
    fault = client_metrics.fault(after)
    return Outcome(*fault) if fault else Outcome(records=[*_records(resource, before, after)])


_OF_TYPE = {
    BROKER: _of_broker,
    TOPIC: _of_topic,
    GROUP: _of_group,
    CLIENT_METRICS: _of_client_metrics,
}
"""What decides on a resource, by its type."""


def _list_of_topic(setting: Setting) -> ConfigKey | str:
    """The key of a list to or from which something is to be taken, or Kafka's words against it."""
    config = topic_configs.TOPIC_CONFIGS.get(setting.name)
    if config is not None and config.key.type is Type.LIST:
        return config.key
    return _no_list(setting)


def _no_list(setting: Setting) -> ConfigKey | str:
    """Kafka's words against a list's operation: no setting of these is a list to it."""
    change = Change(setting.change).name
    return f"Can't {change} to key {setting.name} because its type is not LIST."


def _list_of_broker(setting: Setting) -> ConfigKey | str:
    """The same of a broker; what Kafka's authorizer alone knows is unknown to it."""
    name = setting.name
    key = KAFKA_SETTINGS.get(name) if dynamic_configs.key_of(name) is not None else None
    if key is None:
        return f"Unknown config name: {name}"
    if key.type is Type.LIST:
        return key
    change = Change(setting.change).name.lower()
    return f"Config value {change} is not allowed for config key: {name}"


def _change(
    after: dict[str, str], setting: Setting, list_of: Callable[[Setting], ConfigKey | str]
) -> str | None:
    """Change a setting; gives back what is wrong with that, in Kafka's words."""
    name, value = setting.name, setting.value or ""
    if setting.change == Change.SET:
        after[name] = value
    elif setting.change == Change.DELETE:
        after.pop(name, None)
    else:
        key = list_of(setting)
        if isinstance(key, str):
            return key
        parts = _parts(after.get(name, key.default or ""))
        for part in value.split(","):
            if setting.change == Change.SUBTRACT and part in parts:
                parts.remove(part)
            elif setting.change == Change.APPEND and part not in parts:
                parts.append(part)
        after[name] = ",".join(parts)
    return None


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []


def _records(
    resource: Resource, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigChanged]:
    return [
        ConfigChanged(resource.resource_type, resource.name, name, after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
