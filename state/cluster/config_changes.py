"""Changes of settings by AlterConfigs and IncrementalAlterConfigs.

The broker checks a request's form first: repeated resources or settings, null values, unknown
resource types. It also validates its own settings as a whole: whether they are its own, and dynamic
(`state/configs/dynamic_configs.py`). The controller then checks authorization, operations, the
topic's name, all settings of the topic, and that the topic exists.

An unknown operation on a broker's settings is the broker's INVALID_REQUEST; for other resources the
whole forwarded request fails with -1 UNKNOWN_SERVER_ERROR. So it does if a message of the
controller is too long for the protocol, although its changes hold.

With eligible leader replicas (KIP-966), `min.insync.replicas` of brokers exists at the cluster
level only and cannot be removed. Changing it, of a topic or the cluster, clears eligible replicas
and last known leaders; for the cluster even if the value is the same.

Source: `ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator` in
Kafka; responses of 4.3.1. Not implemented: broker loggers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import compress
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.protocol.primitives import STRING_BYTES_MAX
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import broker_configs, given_configs, topics
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.configs import client_metrics, dynamic_configs, topic_configs
from brokertwin.state.configs import group_configs as keys_of_groups
from brokertwin.state.configs.config_keys import ConfigKey, Type
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.topic_configs import MIN_IN_SYNC
from brokertwin.state.core.api import NotBuilt
from brokertwin.state.core.decision import Request
from brokertwin.state.core.records import ConfigChanged, PartitionAltered

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
_BROKER_ID = re.compile(r"[+-]?[0-9]{1,10}")


class ConfigOperation(IntEnum):
    """Kafka's `configOperation`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_CHANGES = frozenset(ConfigOperation)


class ConfigEdit(NamedTuple):
    """An operation on a setting; `change` may be unknown to Kafka."""

    name: str
    change: int
    value: str | None


class ChangedResource(NamedTuple):
    """Changes of a resource's settings; if `is_complete`, all other settings are removed.

    `store_fault` is the edge's error for the broker's key and trust stores.
    """

    resource_type: int
    name: str
    settings: list[ConfigEdit]
    is_complete: bool = False
    store_fault: str | None = None


class ConfigOutcome(NamedTuple):
    """Result of a resource: an error with Kafka's message, or records."""

    error: Error = Error.NONE
    text: str | None = None
    records: list[ConfigChanged | PartitionAltered] = []


_LOST = ConfigOutcome(Error.UNKNOWN_SERVER_ERROR)


def outcomes(
    controller: Controller,
    request: Request,
    resources: Sequence[ChangedResource],
    built_elsewhere: Mapping[int, str],
) -> list[ConfigOutcome]:
    """One result for each resource.

    Args:
        controller: the controller.
        request: the request.
        resources: the changes.
        built_elsewhere: names of further resource types of Kafka.

    Raises:
        NotBuilt: a resource has such a type.
    """
    counts = Counter((resource.resource_type, resource.name) for resource in resources)
    faults = [_form_error(each, counts[each.resource_type, each.name]) for each in resources]
    are_lost = any(
        fault is None and not _CHANGES.issuperset(setting.change for setting in resource.settings)
        for fault, resource in zip(faults, resources, strict=True)
    )
    may_alter = controller.allows_cluster(request, Operation.ALTER_CONFIGS)
    found = []
    for resource, fault in zip(resources, faults, strict=True):
        type_name = built_elsewhere.get(resource.resource_type)
        if type_name is None:
            found.append(fault or _handle(controller, request, resource, are_lost))
        elif may_alter:
            raise NotBuilt(f"changes of the settings of {type_name}")
        else:
            found.append(ConfigOutcome(Error.CLUSTER_AUTHORIZATION_FAILED))
    return _as_forwarded(resources, faults, found)


def _as_forwarded(
    resources: Sequence[ChangedResource],
    faults: list[ConfigOutcome | None],
    outcomes: list[ConfigOutcome],
) -> list[ConfigOutcome]:
    """Results after forwarding; a message that is too long loses the controller's response.

    The broker still returns its own errors, in form or settings; for the other resources it returns
    -1 UNKNOWN_SERVER_ERROR, although their changes hold.
    """
    is_forwarded = [
        fault is None and not (each.resource_type == BROKER and outcome.error)
        for each, fault, outcome in zip(resources, faults, outcomes, strict=True)
    ]
    texts = [each.text or "" for each in compress(outcomes, is_forwarded)]
    if not any(len(text.encode()) > STRING_BYTES_MAX for text in texts):
        return outcomes
    return [
        _LOST._replace(records=each.records) if is_lost else each
        for each, is_lost in zip(outcomes, is_forwarded, strict=True)
    ]


def _handle(
    controller: Controller, request: Request, resource: ChangedResource, are_lost: bool
) -> ConfigOutcome:
    """Result of a well-formed resource; `are_lost`: the forwarded request fails."""
    if are_lost and resource.resource_type != BROKER:
        return _LOST
    decided = _HANDLERS[resource.resource_type](controller, request, resource)
    return _LOST if are_lost and decided.error is Error.NONE else decided


def _form_error(resource: ChangedResource, count: int) -> ConfigOutcome | None:
    if count > 1:
        return ConfigOutcome(Error.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [setting.name for setting in resource.settings]
    if len(set(names)) < len(names):
        return ConfigOutcome(Error.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        s.name for s in resource.settings if s.value is None and s.change != ConfigOperation.DELETE
    ]
    if nulls:
        text = f"Null value not supported for : {', '.join(nulls)}"
        return ConfigOutcome(Error.INVALID_REQUEST, text)
    if resource.resource_type not in _HANDLERS:
        return ConfigOutcome(
            Error.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}"
        )
    unknown = [setting.change for setting in resource.settings if setting.change not in _CHANGES]
    if unknown and resource.resource_type == BROKER:
        return ConfigOutcome(Error.INVALID_REQUEST, f"Unknown operations type {unknown[0]}")
    return None


def _change_broker(
    controller: Controller, request: Request, resource: ChangedResource
) -> ConfigOutcome:
    """Change a broker's settings, or the cluster's default for an empty name."""
    fault = _name_fault(request.broker, resource.name) if resource.name else None
    if fault is not None:
        return ConfigOutcome(Error.INVALID_REQUEST, fault)
    before = broker_configs.of_resource(controller, resource.name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _list_of_broker)
        if fault is not None:
            return ConfigOutcome(Error.INVALID_CONFIG, fault)
    broker_settings = controller.cell.broker_settings
    now = broker_configs.settings_of(controller, request.broker, broker_settings)
    of_stores = resource.store_fault if resource.name else None
    fault = dynamic_configs.fault(after, bool(resource.name), broker_settings, now, of_stores)
    if fault is not None:
        return ConfigOutcome(Error.INVALID_REQUEST, fault)
    if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):
        return ConfigOutcome(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    has_eligible = controller.settings.has_eligible_replicas
    fault = _cluster_fault(resource) if has_eligible else None
    if fault is not None:
        return ConfigOutcome(Error.INVALID_CONFIG, fault)
    hidden = {name: "" for name in after if dynamic_configs.is_secret(name)}
    is_named = any(setting.name == MIN_IN_SYNC for setting in resource.settings)
    cleared = _cleared_eligible(controller, controller.all_topics()) if is_named else []
    return ConfigOutcome(records=[*_records(resource, before, after | hidden), *cleared])


def _cleared_eligible(controller: Controller, topics: Iterable[Topic]) -> list[PartitionAltered]:
    """Records that clear eligible replicas and last known leaders."""
    if not controller.settings.has_eligible_replicas:
        return []
    return [
        PartitionAltered(topic.topic_id, number, eligible_leader_replicas=[], last_known_elr=[])
        for topic in topics
        for number, partition in enumerate(topic.partitions)
        if partition.eligible_leader_replicas or partition.last_known_elr
    ]


def is_broker_id(name: str) -> bool:
    """True if Java parses the name as an integer."""
    return bool(_BROKER_ID.fullmatch(name)) and -(2**31) <= int(name) < 2**31


def _name_fault(broker: int, name: str) -> str | None:
    """Error for a name that is not the broker's own id."""
    if not is_broker_id(name):
        return f"Node id must be an integer, but it is: {name}"
    if int(name) != broker:
        return f"Unexpected broker id, expected {broker}, but received {name}"
    return None


def _cluster_fault(resource: ChangedResource) -> str | None:
    """Error for min.insync.replicas, which must stay at the cluster level with ELR."""
    changes = {setting.name: setting.change for setting in resource.settings}
    if resource.name:
        is_named = MIN_IN_SYNC in changes
        text = f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled."
        return text if is_named else None
    if_missing = ConfigOperation.DELETE if resource.is_complete else None
    if changes.get(MIN_IN_SYNC, if_missing) == ConfigOperation.DELETE:
        return f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled."
    return None


def _change_topic(
    controller: Controller, request: Request, resource: ChangedResource
) -> ConfigOutcome:
    if not controller.allows_topic(request, Operation.ALTER_CONFIGS, resource.name):
        return ConfigOutcome(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    topic = controller.topic_by_name(resource.name)
    before = topic.configs if topic is not None else {}
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _list_of_topic)
        if fault is not None:
            return ConfigOutcome(Error.INVALID_CONFIG, fault)
    if not resource.name:
        return ConfigOutcome(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
    fault = topics.name_error(resource.name)
    if fault is not None:
        return ConfigOutcome(Error.INVALID_TOPIC_EXCEPTION, fault)
    fault = topic_configs.validate(after, controller.settings)
    if fault is not None:
        return ConfigOutcome(Error.INVALID_CONFIG, fault)
    if topic is None:
        text = f"The topic '{resource.name}' does not exist."
        return ConfigOutcome(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    changed = _records(resource, before, after)
    is_named = any(each.name == MIN_IN_SYNC for each in changed)
    return ConfigOutcome(
        records=[*changed, *_cleared_eligible(controller, [topic] if is_named else [])]
    )


def _change_group(
    controller: Controller, request: Request, resource: ChangedResource
) -> ConfigOutcome:
    """Change a group's settings; the group need not exist."""
    name = resource.name
    if not controller.allows(request, Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
        return ConfigOutcome(Error.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    before = given_configs.of(controller, given_configs.GROUPS, name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting, _not_a_list)
        if fault is not None:
            return ConfigOutcome(Error.INVALID_CONFIG, fault)
    if not name:
        return ConfigOutcome(Error.INVALID_REQUEST, "Default group resources are not allowed.")
    fault = keys_of_groups.fault(after, controller.settings)
    if fault is not None:
        return ConfigOutcome(Error.INVALID_CONFIG, fault)
    return ConfigOutcome(records=[*_records(resource, before, after)])


def _change_client_metrics(
    controller: Controller, request: Request, resource: ChangedResource
) -> ConfigOutcome:
    if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):
        return ConfigOutcome(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    kind = given_configs.CLIENT_METRICS
    before = given_configs.of(controller, kind, resource.name)
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        text = _change(after, setting, _not_a_list)
        if text is not None:
            return ConfigOutcome(Error.INVALID_CONFIG, text)
    if not resource.name:
        return ConfigOutcome(Error.INVALID_REQUEST, "Subscription name can't be empty")
    fault = client_metrics.fault(after)
    return (
        ConfigOutcome(*fault)
        if fault
        else ConfigOutcome(records=[*_records(resource, before, after)])
    )


_HANDLERS = {
    BROKER: _change_broker,
    TOPIC: _change_topic,
    GROUP: _change_group,
    CLIENT_METRICS: _change_client_metrics,
}
"""Handlers by resource type."""


def _list_of_topic(setting: ConfigEdit) -> ConfigKey | str:
    """The key of a topic's list setting, or Kafka's message that it is not a list."""
    config = topic_configs.TOPIC_CONFIGS.get(setting.name)
    if config is not None and config.key.type is Type.LIST:
        return config.key
    return _not_a_list(setting)


def _not_a_list(setting: ConfigEdit) -> ConfigKey | str:
    """Kafka's message for a setting that is not a list."""
    change = ConfigOperation(setting.change).name
    return f"Can't {change} to key {setting.name} because its type is not LIST."


def _list_of_broker(setting: ConfigEdit) -> ConfigKey | str:
    """The key of a broker's list setting; those of Kafka's authorizer are unknown."""
    name = setting.name
    key = KAFKA_SETTINGS.get(name) if dynamic_configs.key_of(name) is not None else None
    if key is None:
        return f"Unknown config name: {name}"
    if key.type is Type.LIST:
        return key
    change = ConfigOperation(setting.change).name.lower()
    return f"Config value {change} is not allowed for config key: {name}"


def _change(
    after: dict[str, str], setting: ConfigEdit, list_of: Callable[[ConfigEdit], ConfigKey | str]
) -> str | None:
    """Apply an operation; returns Kafka's message if it is invalid."""
    name, value = setting.name, setting.value or ""
    if setting.change == ConfigOperation.SET:
        after[name] = value
    elif setting.change == ConfigOperation.DELETE:
        after.pop(name, None)
    else:
        key = list_of(setting)
        if isinstance(key, str):
            return key
        parts = _parts(after.get(name, key.default or ""))
        for part in value.split(","):
            if setting.change == ConfigOperation.SUBTRACT and part in parts:
                parts.remove(part)
            elif setting.change == ConfigOperation.APPEND and part not in parts:
                parts.append(part)
        after[name] = ",".join(parts)
    return None


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []


def _records(
    resource: ChangedResource, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigChanged]:
    return [
        ConfigChanged(resource.resource_type, resource.name, name, after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
