"""Changes of topics' settings, as AlterConfigs and IncrementalAlterConfigs ask for them.

What is wrong with a request's form is seen first, by the broker in Kafka: a resource that is there
twice, a setting that is there twice, null where a value is needed, a type of resources that there
is not. Then come, at the controller, authorization, the operations, the topic's name, the settings
as they would be together, and whether there is such a topic.

Source: `ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator` in
Kafka; answers of 4.3.1. Not done: resources other than topics. Of brokers' settings, which do not
change while they run, those may be removed that there are not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from brokerstream.state.access.authorizer import Operation
from brokerstream.state.cluster import topics
from brokerstream.state.cluster.machines import Controller
from brokerstream.state.configs import topic_configs
from brokerstream.state.configs.config_keys import Type
from brokerstream.state.core.api import NotBuilt
from brokerstream.state.core.decision import Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.records import ConfigChanged

TOPIC, BROKER = 2, 4


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
    """The settings of a resource that are to change; `is_complete`: all others are to go."""

    resource_type: int
    name: str
    settings: list[Setting]
    is_complete: bool = False


class Outcome(NamedTuple):
    """What becomes of a resource: an error in Kafka's words, or records."""

    error: Error = Error.NONE
    text: str | None = None
    records: list[ConfigChanged] = []


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
        built_elsewhere: the types of resources that Kafka has beside topics, in words.

    Raises:
        NotBuilt: a resource is of such a type.
    """
    for resource in resources:
        words = built_elsewhere.get(resource.resource_type)
        if words is not None and not _removes_alone(resource):
            raise NotBuilt(f"changes of the settings of {words}")
    counts = Counter((resource.resource_type, resource.name) for resource in resources)
    return [
        _fault_of_form(resource, counts[resource.resource_type, resource.name])
        or _outcome(controller, request, resource)
        for resource in resources
    ]


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
    if resource.resource_type not in (TOPIC, BROKER):
        return Outcome(Error.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if any(setting.change not in _CHANGES for setting in resource.settings):
        return Outcome(Error.UNKNOWN_SERVER_ERROR)
    return None


def _removes_alone(resource: Resource) -> bool:
    """Whether settings of a broker are to go, and no others to come: it has none of its own."""
    is_of_broker = resource.resource_type == BROKER and not resource.is_complete
    return is_of_broker and all(each.change == Change.DELETE for each in resource.settings)


def _outcome(controller: Controller, request: Request, resource: Resource) -> Outcome:
    if resource.resource_type == BROKER:
        if controller.allows_cluster(request, Operation.ALTER_CONFIGS):
            return Outcome()
        return Outcome(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if not controller.allows_topic(request, Operation.ALTER_CONFIGS, resource.name):
        return Outcome(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    topic = controller.topic_by_name(resource.name)
    before = topic.configs if topic is not None else {}
    after = {} if resource.is_complete else dict(before)
    for setting in resource.settings:
        fault = _change(after, setting)
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
    return Outcome(records=_records(resource.name, before, after))


def _change(after: dict[str, str], setting: Setting) -> str | None:
    """Change a setting; gives back what is wrong with that, in Kafka's words."""
    name, value = setting.name, setting.value or ""
    if setting.change == Change.SET:
        after[name] = value
    elif setting.change == Change.DELETE:
        after.pop(name, None)
    else:
        config = topic_configs.TOPIC_CONFIGS.get(name)
        if config is None or config.key.type is not Type.LIST:
            word = Change(setting.change).name
            return f"Can't {word} to key {name} because its type is not LIST."
        parts = _parts(after.get(name, config.key.default or ""))
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
    topic: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigChanged]:
    return [
        ConfigChanged(TOPIC, topic, name, after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
