"""The levels of the gateway's loggers: what is asked and altered of resources BROKER_LOGGER.

KIP-412. The loggers are those of this process, so the brokers of a gateway have them together: what
is set at one of them shows at all. Nobody keeps the levels: a start has those of `log_level` again.
They are Python's levels of the loggers `brokertwin` (told as `root`) and those below it, by
which `cli/logs.py` writes; TRACE is below DEBUG, FATAL is CRITICAL.

A request may name other resources, too: the engine decides those. It also says whether who asks may
DESCRIBE_CONFIGS, or ALTER_CONFIGS, on the cluster. Of a logger that is to change, in this order:

    the resource is there twice, a logger twice, a level null       42 INVALID_REQUEST
    who asks may not                                                31 CLUSTER_AUTHORIZATION_FAILED
    the name is no id of a broker, or another broker's              42 INVALID_REQUEST
    no such logger, no such level                                   40 INVALID_CONFIG
    the level of `root` is taken away; an operation on lists        42 INVALID_REQUEST
    an operation that Kafka does not have                           -1 UNKNOWN_SERVER_ERROR

Source: `ConfigAdminManager`, `RuntimeLoggerManager`, `ConfigHelper` in Kafka; answers of 4.3.1.
"""

import logging

from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, Engine
from brokertwin.state.cluster.config_changes import ConfigOperation, is_broker_id
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS

DESCRIBE, ALTER = DESCRIBE_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key
BROKER, BROKER_LOGGER = 4, 8
DYNAMIC_BROKER_LOGGER_CONFIG = 6

DESCRIBED = {2, BROKER, BROKER_LOGGER, 16, 32}
"""The types of resources that are described: topics, client metrics and groups beside those."""

ROOT = "root"
OURS = "brokertwin"
LOGGERS = {ROOT: OURS, "brokertwin.gateway": "brokertwin.gateway"}
"""The loggers by the names that clients are told."""

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
_DENIALS = {
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
}

Why = tuple[Error, str | None]


def are_asked(api_key: int, body: Body) -> bool:
    """Whether a request is about loggers, maybe among others."""
    if api_key not in (DESCRIBE, ALTER):
        return False
    return any(each["resourceType"] == BROKER_LOGGER for each in body["resources"])


async def answer(engine: Engine, asked: EdgeRequest) -> Answer:
    """What becomes of such a request. Raises UnansweredError."""
    resources = asked.body["resources"]
    others = [each for each in resources if not _is_logger(each)]
    is_description = asked.header["requestApiKey"] == DESCRIBE
    field = "results" if is_description else "responses"
    decided: dict[tuple[int, str], Body] = {}
    if others:
        answered = await engine.submit(asked._replace(body=asked.body | {"resources": others}))
        if answered.response is None:
            return answered
        for each in answered.response[field]:
            decided[each["resourceType"], each["resourceName"]] = each
    may = await _may(engine, asked)
    own = _described if is_description else _altered
    told = [
        own(asked, each, may)
        if _is_logger(each)
        else decided[each["resourceType"], each["resourceName"]]
        for each in resources
    ]
    if is_description:
        _refuse_unknown(resources, told)
        told.sort(key=lambda each: each["errorCode"] in _DENIALS)  # what is hidden comes last
    return Answer({"throttleTimeMs": 0, field: told})


async def _may(engine: Engine, asked: EdgeRequest) -> bool:
    """Whether who asks may: the engine is asked for what needs no more than that."""
    name = str(asked.broker) if asked.header["requestApiKey"] == DESCRIBE else ""
    harmless = {"resourceType": BROKER, "resourceName": name, "configs": []}
    harmless["configurationKeys"] = ["broker.id"]
    body = asked.body | {"resources": [harmless], "validateOnly": True}
    answered = await engine.submit(asked._replace(body=body))
    response = answered.response or {}
    found = [*response.get("results", ()), *response.get("responses", ())]
    return any(each["errorCode"] not in _DENIALS for each in found)


def _is_logger(resource: Body) -> bool:
    return bool(resource["resourceType"] == BROKER_LOGGER)


def _told(resource: Body, why: Why) -> Body:
    error, text = why
    told = {"errorCode": int(error), "errorMessage": text}
    return told | {key: resource[key] for key in ("resourceType", "resourceName")}


def _refuse_unknown(resources: list[Body], told: list[Body]) -> None:
    """A type of resources that Kafka does not have refuses a description as a whole."""
    for each, found in zip(resources, list(told), strict=True):
        if each["resourceType"] not in DESCRIBED:
            why = Error(found["errorCode"]), found["errorMessage"]
            told[:] = [_told(other, why) | {"configs": []} for other in resources]
            return


def _described(asked: EdgeRequest, resource: Body, may: bool) -> Body:
    """The levels of the loggers, as far as they are asked for."""
    name = resource["resourceName"]
    why: Why = Error.NONE, ""
    if not may:
        why = Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    elif not name:
        why = Error.INVALID_REQUEST, "Broker id must not be empty"
    elif not is_broker_id(name):
        why = Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
    elif int(name) != asked.broker:
        text = f"Unexpected broker id, expected {asked.broker} but received {name}"
        why = Error.INVALID_REQUEST, text
    wanted = resource["configurationKeys"] or LOGGERS
    shown = [] if why[0] else [_config(each) for each in LOGGERS if each in wanted]
    return _told(resource, why) | {"configs": shown}


def _config(name: str) -> Body:
    return {
        "name": name,
        "value": level_of(name),
        "readOnly": False,
        "configSource": DYNAMIC_BROKER_LOGGER_CONFIG,
        "isSensitive": False,
        "synonyms": [],
        "configType": 0,
        "documentation": "",
    }


def level_of(name: str) -> str:
    """The level by which a logger writes, its own or that of the loggers above it."""
    number = logging.getLogger(LOGGERS[name]).getEffectiveLevel()
    return next(level for level, least in reversed(LEVELS.items()) if least <= max(number, 5))


def _altered(asked: EdgeRequest, resource: Body, may: bool) -> Body:
    """Sets levels, if all of them can be set."""
    twins = [each for each in asked.body["resources"] if _is_logger(each)]
    count = sum(each["resourceName"] == resource["resourceName"] for each in twins)
    configs = resource["configs"]
    why = _fault_of_form(configs, count)
    if why is None and not may:
        why = Error.CLUSTER_AUTHORIZATION_FAILED, None
    why = why or _fault_of_name(asked.broker, resource["resourceName"])
    why = why or next(filter(None, map(_fault_of_level, configs)), None)
    if why is None and not asked.body["validateOnly"]:
        for config in configs:
            is_set = config["configOperation"] == ConfigOperation.SET
            level = LEVELS[config["value"]] if is_set else logging.NOTSET
            logging.getLogger(LOGGERS[config["name"]]).setLevel(level)
    return _told(resource, why or (Error.NONE, None))


def _fault_of_form(configs: list[Body], count: int) -> Why | None:
    if count > 1:
        return Error.INVALID_REQUEST, "Each resource must appear at most once."
    names = [each["name"] for each in configs]
    if len(set(names)) < len(names):
        return Error.INVALID_REQUEST, "Error due to duplicate config keys"
    nulls = [
        each["name"]
        for each in configs
        if each["value"] is None and each["configOperation"] != ConfigOperation.DELETE
    ]
    if nulls:
        return Error.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
    return None


def _fault_of_name(broker: int, name: str) -> Why | None:
    if not is_broker_id(name):
        return Error.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
    if int(name) != broker:
        text = f"Unexpected node id. Expected {broker}, but received {name}"
        return Error.INVALID_REQUEST, text
    return None


def _fault_of_level(config: Body) -> Why | None:
    name, operation, level = config["name"], config["configOperation"], config["value"]
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        word = ConfigOperation(operation).name
        text = f"{word} operation is not allowed for the BROKER_LOGGER resource"
        return Error.INVALID_REQUEST, text
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return Error.UNKNOWN_SERVER_ERROR, None
    if name not in LOGGERS:
        return Error.INVALID_CONFIG, f"Logger {name} does not exist!"
    if operation == ConfigOperation.DELETE and name == ROOT:
        return Error.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
    if operation == ConfigOperation.SET and level not in LEVELS:
        text = f"Cannot set the log level of {name} to {level} as it is not a supported log level."
        return Error.INVALID_CONFIG, f"{text} Valid log levels are {', '.join(sorted(LEVELS))}"
    return None
