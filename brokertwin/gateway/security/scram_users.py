"""DescribeUserScramCredentials and AlterUserScramCredentials (keys 50, 51).

The gateway responds itself, so no secret reaches a topic. A change is in the credentials file
before its response, and applies to the next connection of every gateway with that file. Without
such a file no client authenticates with these users, which are then stored beside the journal or
in memory. The engine checks DESCRIBE or ALTER on the cluster (`31 CLUSTER_AUTHORIZATION_FAILED`).

Errors for each user, in this order, deletions first; the first error counts:

    no name                                 93 UNACCEPTABLE_CREDENTIAL
    an unknown mechanism                    33 UNSUPPORTED_SASL_MECHANISM
    too few or too many iterations          93 UNACCEPTABLE_CREDENTIAL
    no salt, which Kafka accepts            93 UNACCEPTABLE_CREDENTIAL
    a deletion of a missing entry           91 RESOURCE_NOT_FOUND
    twice in the request                    92 DUPLICATE_RESOURCE, and neither changes anything
    the last entry of the credentials file  93 UNACCEPTABLE_CREDENTIAL: no client could log in

Source: `ScramControlManager`, `ScramImage` in Kafka; KIP-554; responses of 4.3.1.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Mapping

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import (
    Body,
    BrokerEngine,
    EdgeRequest,
    EngineResponse,
    internal_header,
)
from brokertwin.gateway.security import scram
from brokertwin.gateway.security.credentials import Users
from brokertwin.gateway.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, Credential
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
    KafkaApi,
)
from brokertwin.state.access.authorizer import Operation, needs

DESCRIBE = DESCRIBE_USER_SCRAM_CREDENTIALS.key
ALTER = ALTER_USER_SCRAM_CREDENTIALS.key
NEEDED = {DESCRIBE: Operation.DESCRIBE, ALTER: Operation.ALTER}
VERSIONS = (0, 0)
_BY_CODE = dict(enumerate(scram.MECHANISMS.values(), 1))
_CODES = {mechanism.name: code for code, mechanism in _BY_CODE.items()}
_NEEDS_JUST: dict[Operation, tuple[KafkaApi, int, Body]] = {
    Operation.ALTER: (UPDATE_FEATURES, 1, {"featureUpdates": [], "validateOnly": True}),
    Operation.DESCRIBE: (LIST_PARTITION_REASSIGNMENTS, 0, {"topics": []}),
}

Why = tuple[Error, str]


async def respond(engine: BrokerEngine, users: Users, request: EdgeRequest) -> EngineResponse:
    """Process a request. Raises NoResponseError."""
    api_key, body = request.api_key, request.document().body
    if not await _may(engine, request, NEEDED[api_key]):
        return EngineResponse(_denied(api_key, body))
    return EngineResponse((describe if api_key == DESCRIBE else alter)(users, body))


def describe(users: Users, body: Body) -> Body:
    entries = users.entries()
    names = [each["name"] for each in body["users"] or ()]
    if not names:
        names = list(dict.fromkeys(each.user for each in entries))
    counts = Counter(names)
    results = []
    for name in counts:
        found = sorted(
            (_CODES[each.mechanism], each.iterations) for each in entries if each.user == name
        )
        result: Body = {"user": name, "errorCode": 0, "errorMessage": "", "credentialInfos": []}
        if counts[name] > 1:
            words = "Cannot describe SCRAM credentials for the same user twice in a single request"
            result |= _result((Error.DUPLICATE_RESOURCE, f"{words}: {name}"))
        elif not found:
            words = "Attempt to describe a user credential that does not exist"
            result |= _result((Error.RESOURCE_NOT_FOUND, f"{words}: {name}"))
        else:
            result["credentialInfos"] = [{"mechanism": m, "iterations": n} for m, n in found]
        results.append(result)
    return {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": "", "results": results}


def alter(users: Users, body: Body) -> Body:
    """Apply all valid changes to the file and return a result for each user."""
    entries = {(each.user, each.mechanism): each for each in users.entries()}
    outcomes: dict[str, Why | None] = {}
    accepted: dict[str, Body] = {}
    for change in [*body["deletions"], *body["upsertions"]]:
        name = change["name"]
        if name in accepted:
            words = "A user credential cannot be altered twice in the same request"
            outcomes[name] = Error.DUPLICATE_RESOURCE, words
            del accepted[name]
        elif name not in outcomes:
            outcomes[name] = _fault(entries, change)
            if outcomes[name] is None:
                accepted[name] = change
    for change in accepted.values():
        _apply(entries, change)
    if not (entries or users.may_be_empty) and users.entries():
        empty = (Error.UNACCEPTABLE_CREDENTIAL, "No client could authenticate any more")
        outcomes = {name: why or empty for name, why in outcomes.items()}
    elif None in outcomes.values():
        why = _written(users, list(entries.values()))
        outcomes = {name: outcome or why for name, outcome in outcomes.items()}
    return {
        "throttleTimeMs": 0,
        "results": [{"user": name, **_result(why)} for name, why in outcomes.items()],
    }


def _fault(entries: Mapping[tuple[str, str], Credential], change: Body) -> Why | None:
    """Return why a credential cannot be set or deleted, or None."""
    mechanism = _BY_CODE.get(change["mechanism"])
    if not change["name"]:
        return Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism is None:
        return Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if "iterations" in change:
        return _fault_of_new(change)
    if (change["name"], mechanism.name) not in entries:
        words = "Attempt to delete a user credential that does not exist"
        return Error.RESOURCE_NOT_FOUND, words
    return None


def _fault_of_new(change: Body) -> Why | None:
    if change["iterations"] < ITERATIONS_MIN:
        return Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if change["iterations"] > ITERATIONS_MAX:
        return Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not change["salt"] or not change["saltedPassword"]:
        return Error.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty"
    return None


def _apply(entries: dict[tuple[str, str], Credential], change: Body) -> None:
    name, mechanism = change["name"], _BY_CODE[change["mechanism"]]
    entries.pop((name, mechanism.name), None)
    if "iterations" in change:
        salt, salted = (b64decode(change[each]) for each in ("salt", "saltedPassword"))
        entries[name, mechanism.name] = scram.of_salted(
            name, mechanism, salted, salt, change["iterations"]
        )


def _written(users: Users, entries: list[Credential]) -> Why | None:
    try:
        users.replace(entries)
    except UserError as error:
        return Error.UNKNOWN_SERVER_ERROR, error.message
    return None


def _result(why: Why | None) -> Body:
    code, message = why or (Error.NONE, None)
    return {"errorCode": int(code), "errorMessage": message}


def _denied(api_key: int, body: Body) -> Body:
    denied: Body = {"errorCode": int(Error.CLUSTER_AUTHORIZATION_FAILED), "errorMessage": None}
    if api_key == DESCRIBE:
        empty = {"user": "", "credentialInfos": [], **denied}
        return {"throttleTimeMs": 0, **denied, "results": [empty]}
    denied["errorMessage"] = needs(Operation.ALTER)
    names = dict.fromkeys(each["name"] for each in (*body["deletions"], *body["upsertions"]))
    return {"throttleTimeMs": 0, "results": [{"user": name, **denied} for name in names]}


async def _may(engine: BrokerEngine, request: EdgeRequest, operation: Operation) -> bool:
    """Check the permission with a harmless request to the engine.

    An empty UpdateFeatures requires ALTER, an empty ListPartitionReassignments DESCRIBE.
    """
    api, version, body = _NEEDS_JUST[operation]
    header = internal_header(api.key, version, request.header.client_id)
    submitted = await engine.submit(request._replace(header=header, body=body))
    denied = Error.CLUSTER_AUTHORIZATION_FAILED
    return submitted.error is None and submitted.document(version).get("errorCode") != denied
