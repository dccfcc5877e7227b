"""Levels of the gateway's loggers: resources of type BROKER_LOGGER (KIP-412).

The loggers belong to this process, so all brokers of a gateway share them. Levels are not
persisted: a restart sets `log_level` again. They are Python's levels of the logger `brokertwin`
(named `root` for clients) and of those below it, used by `cli/logs.py`. TRACE is below DEBUG, FATAL
is CRITICAL.

The engine processes other resources of the request, and checks DESCRIBE_CONFIGS or ALTER_CONFIGS on
the cluster. Errors of a change, in this order:

    duplicate resource or logger, or a level null                   42 INVALID_REQUEST
    no permission                                                   31 CLUSTER_AUTHORIZATION_FAILED
    the name is no broker id, or another broker's                   42 INVALID_REQUEST
    unknown logger or level                                         40 INVALID_CONFIG
    deletion of the level of `root`, or an operation on lists       42 INVALID_REQUEST
    unknown operation                                               -1 UNKNOWN_SERVER_ERROR

Source: `ConfigAdminManager`, `RuntimeLoggerManager`, `ConfigHelper` in Kafka; responses of 4.3.1.
"""

import logging

from brokertwin.gateway import refusals
from brokertwin.gateway.engine.engine import Body, BrokerEngine, EdgeRequest, EngineResponse
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from brokertwin.state.cluster.config_changes import ConfigOperation, is_broker_id

DESCRIBE, ALTER = DESCRIBE_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key
BROKER, BROKER_LOGGER = 4, 8
DYNAMIC_BROKER_LOGGER_CONFIG = 6

DESCRIBED = {2, BROKER, BROKER_LOGGER, 16, 32}
"""Resource types that can be described; the others are topics, client metrics and groups."""

ROOT = "root"
OURS = "brokertwin"
LOGGERS = {ROOT: OURS, "brokertwin.gateway": "brokertwin.gateway"}
"""Names for clients to names of Python loggers."""

APIS = frozenset({DESCRIBE, ALTER})
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
_DENIALS = {
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
}

Why = tuple[Error, str | None]


def names_loggers(api_key: int, body: Body) -> bool:
    return api_key in APIS and any(
        each["resourceType"] == BROKER_LOGGER for each in body["resources"]
    )


async def respond(engine: BrokerEngine, request: EdgeRequest) -> EngineResponse:
    """Process a request with loggers. Raises NoResponseError."""
    document = request.document().body
    resources = document["resources"]
    others = [each for each in resources if not _is_logger(each)]
    is_description = request.api_key == DESCRIBE
    field = "results" if is_description else "responses"
    decided: dict[tuple[int, str], Body] = {}
    if others:
        submitted = await engine.submit(request._replace(body=document | {"resources": others}))
        if submitted.response is None:
            return submitted
        for each in submitted.document(request.version)[field]:
            decided[each["resourceType"], each["resourceName"]] = each
    may = await _may(engine, request, document)
    own = _described if is_description else _altered
    described = [
        own(request.broker, document, each, may)
        if _is_logger(each)
        else decided[each["resourceType"], each["resourceName"]]
        for each in resources
    ]
    if is_description:
        _refuse_unknown(resources, described)
        described.sort(key=lambda each: each["errorCode"] in _DENIALS)  # denied resources come last
    body = {"throttleTimeMs": 0, field: described}
    return EngineResponse(refusals.to_struct(request.api_key, body))


async def _may(engine: BrokerEngine, request: EdgeRequest, document: Body) -> bool:
    """Check the permission with a harmless request to the engine."""
    if request.api_key == DESCRIBE:
        harmless = {"resourceName": str(request.broker), "configurationKeys": ["broker.id"]}
        body = dict(document)
    else:
        harmless = {"resourceName": "", "configs": []}
        body = document | {"validateOnly": True}
    body["resources"] = [{"resourceType": BROKER, **harmless}]
    submitted = await engine.submit(request._replace(body=body))
    response = submitted.document(request.version)
    found = [*response.get("results", ()), *response.get("responses", ())]
    return any(each["errorCode"] not in _DENIALS for each in found)


def _is_logger(resource: Body) -> bool:
    return bool(resource["resourceType"] == BROKER_LOGGER)


def _entry(resource: Body, why: Why) -> Body:
    error, text = why
    described = {"errorCode": int(error), "errorMessage": text}
    return described | {key: resource[key] for key in ("resourceType", "resourceName")}


def _refuse_unknown(resources: list[Body], described: list[Body]) -> None:
    """Fail a whole description if one resource type is unknown, like Kafka."""
    for each, description in zip(resources, list(described), strict=True):
        if each["resourceType"] not in DESCRIBED:
            why = Error(description["errorCode"]), description["errorMessage"]
            described[:] = [_entry(other, why) | {"configs": []} for other in resources]
            return


def _described(broker: int, _document: Body, resource: Body, may: bool) -> Body:
    name = resource["resourceName"]
    why: Why = Error.NONE, ""
    if not may:
        why = Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    elif not name:
        why = Error.INVALID_REQUEST, "Broker id must not be empty"
    elif not is_broker_id(name):
        why = Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
    elif int(name) != broker:
        text = f"Unexpected broker id, expected {broker} but received {name}"
        why = Error.INVALID_REQUEST, text
    loggers = resource["configurationKeys"] or LOGGERS
    shown = [] if why[0] else [_config(each) for each in LOGGERS if each in loggers]
    return _entry(resource, why) | {"configs": shown}


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
    number = logging.getLogger(LOGGERS[name]).getEffectiveLevel()
    return next(level for level, least in reversed(LEVELS.items()) if least <= max(number, 5))


def _altered(broker: int, document: Body, resource: Body, may: bool) -> Body:
    """Set all levels of a resource, or none if one is invalid."""
    twins = [each for each in document["resources"] if _is_logger(each)]
    count = sum(each["resourceName"] == resource["resourceName"] for each in twins)
    configs = resource["configs"]
    why = _fault_of_form(configs, count)
    if why is None and not may:
        why = Error.CLUSTER_AUTHORIZATION_FAILED, None
    why = why or _fault_of_name(broker, resource["resourceName"])
    why = why or next(filter(None, map(_fault_of_level, configs)), None)
    if why is None and not document["validateOnly"]:
        for config in configs:
            is_set = config["configOperation"] == ConfigOperation.SET
            level = LEVELS[config["value"]] if is_set else logging.NOTSET
            logging.getLogger(LOGGERS[config["name"]]).setLevel(level)
    return _entry(resource, why or (Error.NONE, None))


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
