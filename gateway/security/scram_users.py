"""DescribeUserScramCredentials and AlterUserScramCredentials (keys 50, 51): the credentials file.

The gateway answers both itself: what is secret reaches no topic. A change is in the credentials
file before it is answered, and in effect for the next connection of every gateway with that file.
Without that file no client authenticates with these users; they are kept beside the journal or in
memory. The engine says whether who asks may: DESCRIBE, or ALTER, on the cluster (31).

Of each user whose credentials are to change, in this order, deletions first; the first error is it:

    no name                                 93 UNACCEPTABLE_CREDENTIAL
    an unknown mechanism                    33 UNSUPPORTED_SASL_MECHANISM
    too few or too many iterations          93 UNACCEPTABLE_CREDENTIAL
    no salt, which Kafka takes              93 UNACCEPTABLE_CREDENTIAL
    a deletion of what is not there         91 RESOURCE_NOT_FOUND
    named once more in the request          92 DUPLICATE_RESOURCE, and neither changes anything
    the last entry of the credentials file  93 UNACCEPTABLE_CREDENTIAL: no client could log in

Source: `ScramControlManager`, `ScramImage` in Kafka; KIP-554; answers of 4.3.1.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Mapping

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import Body, EdgeRequest, Engine
from brokertwin.gateway.security import scram
from brokertwin.gateway.security.credentials import Users
from brokertwin.gateway.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, Credential
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
    KafkaApi,
)

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


async def answer(engine: Engine, users: Users, api_key: int, asked: EdgeRequest) -> Body:
    """The body of an answer; a change is in the file. Raises UnansweredError."""
    if not await _may(engine, asked, NEEDED[api_key]):
        return _denied(api_key, asked.body)
    return (describe if api_key == DESCRIBE else alter)(users, asked.body)


def describe(users: Users, body: Body) -> Body:
    """Mechanisms and iterations of the users that are asked for, or of all."""
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
            result |= _told((Error.DUPLICATE_RESOURCE, f"{words}: {name}"))
        elif not found:
            words = "Attempt to describe a user credential that does not exist"
            result |= _told((Error.RESOURCE_NOT_FOUND, f"{words}: {name}"))
        else:
            result["credentialInfos"] = [{"mechanism": m, "iterations": n} for m, n in found]
        results.append(result)
    return {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": "", "results": results}


def alter(users: Users, body: Body) -> Body:
    """Changes the file by all that is in order, and says of each user what became of it."""
    entries = {(each.user, each.mechanism): each for each in users.entries()}
    told: dict[str, Why | None] = {}
    accepted: dict[str, Body] = {}
    for change in [*body["deletions"], *body["upsertions"]]:
        name = change["name"]
        if name in accepted:
            words = "A user credential cannot be altered twice in the same request"
            told[name] = Error.DUPLICATE_RESOURCE, words
            del accepted[name]
        elif name not in told:
            told[name] = _fault(entries, change)
            if told[name] is None:
                accepted[name] = change
    for change in accepted.values():
        _apply(entries, change)
    if not (entries or users.may_be_empty) and users.entries():
        nobody = (Error.UNACCEPTABLE_CREDENTIAL, "Nobody could authenticate any more")
        told = {name: why or nobody for name, why in told.items()}
    elif None in told.values():
        why = _written(users, list(entries.values()))
        told = {name: known or why for name, known in told.items()}
    return {
        "throttleTimeMs": 0,
        "results": [{"user": name, **_told(why)} for name, why in told.items()],
    }


def _fault(entries: Mapping[tuple[str, str], Credential], change: Body) -> Why | None:
    """Why a credential cannot be set, or taken out; None where it can."""
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
    """Puts an entry among the others, or takes one out."""
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


def _told(why: Why | None) -> Body:
    code, message = why or (Error.NONE, None)
    return {"errorCode": int(code), "errorMessage": message}


def _denied(api_key: int, body: Body) -> Body:
    denied: Body = {"errorCode": int(Error.CLUSTER_AUTHORIZATION_FAILED), "errorMessage": None}
    if api_key == DESCRIBE:
        nobody = {"user": "", "credentialInfos": [], **denied}
        return {"throttleTimeMs": 0, **denied, "results": [nobody]}
    denied["errorMessage"] = needs(Operation.ALTER)
    names = dict.fromkeys(each["name"] for each in (*body["deletions"], *body["upsertions"]))
    return {"throttleTimeMs": 0, "results": [{"user": name, **denied} for name in names]}


async def _may(engine: Engine, asked: EdgeRequest, operation: Operation) -> bool:
    """Whether who asks may do it to the cluster: the engine is asked what needs no more than that.

    An UpdateFeatures of nothing needs ALTER, a ListPartitionReassignments of nothing DESCRIBE.
    """
    api, version, body = _NEEDS_JUST[operation]
    header = asked.header | {"requestApiKey": api.key, "requestApiVersion": version}
    header["requestApiKeyName"] = api.name
    answered = await engine.submit(asked._replace(header=header, body=body))
    denied = Error.CLUSTER_AUTHORIZATION_FAILED
    return answered.error is None and (answered.response or {}).get("errorCode") != denied
