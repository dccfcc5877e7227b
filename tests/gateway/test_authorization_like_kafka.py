"""Authorization of every API, for users with each single right.

A real 4.3.1 and a gateway get the same users, ACLs, topics and requests in the same order, and must
return the same responses. For each operation on each resource type one user is allowed only that,
and another everything but that; two more are allowed everything and nothing. All of them send the
newest version of each API, the last two also older ones.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.gateway.admin.api_versions import UNNAMED
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.primitives import NotEncodableError
from brokertwin.state.access.authorizer import (
    CLASS_NAME,
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support import sasl
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden, packed, properties_of, real_broker
from tests.support.patience import wait_until
from tests.support.requests_of_all import ApiRequest, all_of

ADMIN, ALL, NONE, PASSWORD = "admin", "all", "none", "secret"
RIGHTS = [
    (kind, operation)
    for kind, operations in {
        **OPERATIONS,
        ResourceType.TRANSACTIONAL_ID: (
            Operation.DESCRIBE,
            Operation.WRITE,
            Operation.TWO_PHASE_COMMIT,
        ),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }.items()
    for operation in operations
]
"""Operations of each resource type (`AclEntry.supportedOperations` in Kafka)."""
KINDS = tuple(dict.fromkeys(kind for kind, _ in RIGHTS))
SETTINGS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": f"User:{ADMIN};User:broker;User:ANONYMOUS",
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": sasl.PLAIN,
    "sasl.mechanism.inter.broker.protocol": sasl.PLAIN,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    **{  # members stay as long as a slow machine needs
        f"group.{kind}.{which}session.timeout.ms": "600000"
        for kind in ("consumer", "share", "streams")
        for which in ("max.", "")
    },
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
}
SECRETS = {"delegation.token.secret.key": "only a test's"}
COORDINATED = {
    "FIND_COORDINATOR",
    "INIT_PRODUCER_ID",
    "OFFSET_FETCH",
    "INITIALIZE_SHARE_GROUP_STATE",
}
"""Requests that show whether coordinators are loaded, also of transactions and share states."""
NEVER = "two phases"
"""An operation that no user is allowed in this cluster."""
NEWEST = {api.name: api.last for api in KAFKA_APIS.values() if api.last >= 0}
OLDEST = {api.name: api.first for api in KAFKA_APIS.values() if api.last >= 0}
NEW_ID = re.compile(r"[\w-]{22}")
OWN = {
    *("memberId", "leader", "host", "port", "producerId", "clusterId", "controllerId"),
    *("totalBytes", "usableBytes", "lastFetchTimestamp", "lastCaughtUpTimestamp"),
    *("logDir", "hmac", "issueTimestampMs", "expiryTimestampMs", "maxTimestampMs"),
    *("issueTimestamp", "expiryTimestamp", "maxTimestamp"),
    *("logEndOffset", "highWatermark", "finalizedFeaturesEpoch"),
}
"""Fields whose values differ between brokers."""
NOT_REQUESTED = {
    "API_VERSIONS": "is answered before anybody is known",
    "SASL_HANDSHAKE": "as it is",
    "SASL_AUTHENTICATE": "as it is",
    "ADD_RAFT_VOTER": "the gateway has one controller, which votes for itself",
    "REMOVE_RAFT_VOTER": "as it is",
}
SERVED_UNNAMED = {KAFKA_APIS[key].name for key in UNNAMED}
IDLE = {"transactional-id-two-phase-commit"}
"""Rights that change no response: this cluster has no two-phase commit."""


class Place(NamedTuple):
    """The key of a response: an API, a case, a version, and the user."""

    api: str
    case: str
    version: int
    who: str


def is_known(place: Place, real: Any) -> bool:
    """Return whether an authorized response differs for a known reason.

    A gateway's loggers are not Kafka's. Kafka's first ShareFetch of a partition, which it has to
    load, has the partition in its response or `-1 UNKNOWN_SERVER_ERROR`, by chance.
    """
    if place.api == "SHARE_FETCH":
        return _error_of(real) in (Error.NONE, Error.UNKNOWN_SERVER_ERROR)
    return place.case == "a logger" and not _error_of(real)


class AuthorizedUser(NamedTuple):
    name: str
    acls: list[tuple[ResourceType, Operation, Permission]]


def users() -> list[AuthorizedUser]:
    """Return all users; the last two send every version."""
    everything = [(kind, Operation.ALL, Permission.ALLOW) for kind in KINDS]
    found = []
    for kind, operation in RIGHTS:
        word = f"{kind.name}-{operation.name}".lower().replace("_", "-")
        found.append(AuthorizedUser(f"only-{word}", [(kind, operation, Permission.ALLOW)]))
        found.append(
            AuthorizedUser(f"not-{word}", [*everything, (kind, operation, Permission.DENY)])
        )
    return [*found, AuthorizedUser(ALL, everything), AuthorizedUser(NONE, [])]


def _acl(who: str, kind: ResourceType, operation: Operation, permission: Permission) -> Any:
    return {
        "resourceType": int(kind),
        "resourceName": CLUSTER_NAME if kind is ResourceType.CLUSTER else "*",
        "resourcePatternType": int(PatternType.LITERAL),
        "principal": f"User:{who}",
        "host": "*",
        "operation": int(operation),
        "permissionType": int(permission),
    }


class Side:
    """A broker and its responses, by API, case, version and user."""

    def __init__(self, address: Address) -> None:
        self.found: dict[Place, Any] = {}
        self._address = address
        self._names: dict[str, str] = {}
        with self._logged_in(ADMIN) as admin:
            software = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1"}
            listed = admin.call("API_VERSIONS", 3, software)["apiKeys"]
            self.served = {KAFKA_APIS[each["apiKey"]].name for each in listed}
            self._prepare(admin)

    def _logged_in(self, user: str) -> Client:
        client = Client(self._address)
        assert sasl.log_in(client, user, PASSWORD)["errorCode"] == 0
        return client

    def _prepare(self, admin: Client) -> None:
        """Create topics, coordinators and ACLs, and wait until the broker knows them."""
        for who in [*users(), AuthorizedUser(ADMIN, [])]:
            self._names[admin.topic(f"t-{who.name}")] = f"t-{who.name}"
        for request, version in self._requests(AuthorizedUser(ADMIN, []), COORDINATED):
            if request.case != NEVER:
                again = partial(admin.call, request.api, version, request.body)
                wait_until(lambda again=again: not _error_of(again()), request.api)
        wanted = [_acl(who.name, *each) for who in users() for each in who.acls]
        response = admin.call("CREATE_ACLS", 3, creations=wanted)
        assert not any(each["errorCode"] for each in response["results"])
        last = "not-user-describe-tokens"
        with self._logged_in(last) as client:  # its ACLs are the last ones before those of `all`
            body = {"topics": [{"name": f"t-{last}"}], "allowAutoTopicCreation": False}
            wait_until(lambda: client.call("METADATA", 12, body)["topics"][0]["errorCode"] == 0)

    def send_all(self) -> None:
        for who in users():
            client = self._logged_in(who.name)
            for request, version in self._requests(who, set(NEWEST)):
                place = Place(request.api, request.case, version, who.name)
                try:
                    response = client.call(request.api, version, dict(request.body))
                    self.found[place] = self._comparable(response)
                    if request.api == "DELETE_TOPICS":
                        self._wait_until_gone(response)
                    elif request.api == "CREATE_DELEGATION_TOKEN" and not response["errorCode"]:
                        self._wait_until_known(response["tokenId"])
                except NotEncodableError:
                    continue  # this version lacks the field
                except ConnectionError:
                    self.found[place] = "closed"
                    client = self._logged_in(who.name)

    def _wait_until_gone(self, response: dict[str, Any]) -> None:
        """Wait until the broker has applied the controller's deletion."""
        gone = [each["name"] for each in response["responses"] if not each["errorCode"]]
        body = {"topics": [{"name": name} for name in gone], "allowAutoTopicCreation": False}
        with self._logged_in(ADMIN) as admin:
            wait_until(
                lambda: all(e["errorCode"] for e in admin.call("METADATA", 12, body)["topics"])
            )

    def _wait_until_known(self, token_id: str) -> None:
        """Wait until the broker knows a token, so that later users see it."""
        with self._logged_in(ADMIN) as admin:

            def tokens() -> set[str]:
                response = admin.call("DESCRIBE_DELEGATION_TOKEN", 3, owners=None)
                return {each["tokenId"] for each in response["tokens"]}

            wait_until(lambda: token_id in tokens())

    def _requests(self, who: AuthorizedUser, apis: set[str]) -> Iterator[tuple[ApiRequest, int]]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        versions = range(max(NEWEST.values()) + 1)
        reported = [all_of(who.name, version, ids[f"t-{who.name}"]) for version in versions]
        for alike in zip(*reported, strict=True):
            name = alike[0].api
            if name in apis:
                first = OLDEST[name] if who.name in (ALL, NONE) else NEWEST[name]
                for version in range(first, NEWEST[name] + 1):
                    yield alike[version], version

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, list):
            return sorted((self._comparable(each) for each in value), key=json.dumps)
        if isinstance(value, dict):
            return {k: self._comparable(v) for k, v in sorted(value.items()) if k not in OWN}
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        return self._named(value) if isinstance(value, str) else value

    def _named(self, text: str) -> str:
        """Replace ids by names; Kafka's messages contain the request as Java prints it."""
        text = re.sub(r"Request Request\(.*\) needs", "Request needs", text)
        for topic_id, name in self._names.items():
            text = text.replace(topic_id, name)
        return "new" if NEW_ID.fullmatch(text) else text


def _error_of(response: dict[str, Any]) -> int:
    """Return the first error of a response."""
    for name, value in response.items():
        if name == "errorCode" and value:
            return int(value)
        for part in value if isinstance(value, list) else ():
            if isinstance(part, dict) and (error := _error_of(part)):
                return error
    return 0


class ServedResponses(NamedTuple):
    """The APIs that a broker lists, and its responses."""

    served: set[str]
    found: dict[Place, Any]


def served_by(address: Address) -> ServedResponses:
    side = Side(address)
    side.send_all()
    return ServedResponses(side.served, side.found)


def shortened(what: ServedResponses) -> Any:
    """Deduplicate for a golden: the distinct responses, and an index for each key."""
    known: dict[str, int] = {}
    places: dict[str, dict[str, int]] = {}
    for place, response in what.found.items():
        number = known.setdefault(json.dumps(response), len(known))
        key = f"{place.api} {place.version} {place.case}"
        places.setdefault(key, {})[place.who] = number
    return {"served": what.served, "answers": list(known), "places": places}


def restored(value: Any) -> ServedResponses:
    """Undo `shortened`."""
    responses = list(map(json.loads, value["answers"]))
    found = {}
    for key, by_user in value["places"].items():
        api, version, case = key.split(" ", 2)
        for who, number in by_user.items():
            found[Place(api, case, int(version), who)] = responses[number]
    return ServedResponses(value["served"], found)


def recorded_by_kafka(home: Path, names: list[str]) -> Any:
    login = " ".join(f'user_{name}="{PASSWORD}"' for name in names)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=broker"
    jaas = {
        "listener.name.client.plain.sasl.jaas.config": f'{plain} password="{PASSWORD}" {login};'
    }
    with real_broker(home, {**SETTINGS, **SECRETS, **jaas}) as address:
        return shortened(served_by(address))


def scenario() -> list[Any]:
    versions = range(max(NEWEST.values()) + 1)
    requests = [all_of("somebody", version, "id") for version in versions]
    return [requests, users(), hashlib.sha256(repr(sorted(NEWEST.items())).encode()).hexdigest()]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> list[ServedResponses]:
    """Return the real broker's responses, and the gateway's."""
    home = tmp_path_factory.mktemp("authorization")
    names = [ADMIN, "broker", *(who.name for who in users())]
    real = golden(
        "access/authorization",
        partial(recorded_by_kafka, home / "kafka", names),
        scenario=hashlib.sha256(repr(packed(scenario())).encode()).hexdigest(),
        settings=SETTINGS,
    )
    mechanism = scram.MECHANISMS[sasl.SCRAM_256]
    file = home / "users.jsonl"
    credentials.write(file, [credentials.make(n, mechanism, PASSWORD, 4096) for n in names])
    security = GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, SECRETS, file)
    properties = properties_of({**SETTINGS, **SECRETS})
    with running_gateway(properties, security=security) as gateway:
        return [restored(real), served_by(gateway.addresses[1])]


@pytest.mark.compares
def test_every_user_gets_kafkas_responses(sides: list[ServedResponses]) -> None:
    real, ours = (side.found for side in sides)
    differing = [
        f"{place}\n  kafka {json.dumps(response)}\n  ours  {json.dumps(ours[place])}"
        for place, response in real.items()
        if response != ours[place] and not is_known(place, response)
    ]
    assert not differing, "\n".join([f"{len(differing)} of {len(real)}", *differing[:40]])


@pytest.mark.compares
def test_every_api_has_a_request_and_each_right_changes_a_response(
    sides: list[ServedResponses],
) -> None:
    """Every API of 4.3.1 is included, except those listed here."""
    real, ours = sides
    assert real.served - ours.served <= NOT_REQUESTED.keys()
    versions = {(place.api, place.version) for place in real.found}
    reached = {api for api, _ in versions}
    assert reached == (real.served & ours.served | SERVED_UNNAMED) - NOT_REQUESTED.keys()
    for api in reached:
        assert {v for a, v in versions if a == api} == set(range(OLDEST[api], NEWEST[api] + 1))
    assert {place.who for place in real.found} == {who.name for who in users()}
    fields: dict[str, list[bool]] = {who.name: [] for who in users()}
    for place, response in real.found.items():
        if place.version == NEWEST[place.api]:
            fields[place.who].append(bool(_error_of(response)))
    idle = {
        name.removeprefix("only-")
        for name, refused in fields.items()
        if name.startswith("only-") and refused == fields[NONE]
        if fields[name.replace("only-", "not-")] == fields[ALL]
    }
    assert idle <= IDLE
