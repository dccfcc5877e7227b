"""AlterConfigs and IncrementalAlterConfigs (keys 33, 44) before they reach the engine.

The gateway validates the key and trust stores that a broker would have, and adds the result to the
request (`edge.storeFault`). Secret values never reach the engine: it gets only their names.
Passwords of stores are kept in `store_passwords.py` after the engine accepts the change.
"""

from collections.abc import Callable, Iterable, Mapping

from brokertwin.gateway.admin import broker_loggers
from brokertwin.gateway.engine.engine import Body, BrokerEngine, EdgeRequest, EngineResponse
from brokertwin.gateway.security.altered_stores import AlteredStores
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.protocol.kafka_apis import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from brokertwin.state.access.redaction import HIDDEN
from brokertwin.state.cluster.config_changes import ConfigOperation, is_broker_id
from brokertwin.state.configs.dynamic_configs import is_of_store, is_secret

REPLACE, ALTER = ALTER_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key
APIS = frozenset({REPLACE, ALTER})
_BROKER = 4

Secrets = dict[str, str | None]
"""Secret values by name of setting; None removes one."""

StoresOf = Callable[[int], Iterable[AlteredStores]]
"""Return the stores of a broker's listeners."""


class AlteredSettings:
    """Forwards changes of broker settings.

    Args:
        stores_of: returns the stores to validate.
        passwords: keeps passwords of stores.
        on_change: called after passwords have changed.
    """

    def __init__(
        self,
        engine: BrokerEngine,
        stores_of: StoresOf,
        passwords: StorePasswords,
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._engine = engine
        self._stores_of = stores_of
        self._passwords = passwords

    async def respond(self, request: EdgeRequest) -> EngineResponse:
        """Process a request. Raises NoResponseError."""
        api_key, document = request.api_key, request.document().body
        resources = document["resources"]
        own = next((each for each in resources if _is_of(request.broker, each)), None)
        then, secrets = self._then(request.broker, own, api_key) if own is not None else ({}, {})
        fault = self._fault(request.broker, then, secrets) if own is not None else None
        body = document | {"resources": [_without_secrets(each) for each in resources]}
        if fault is not None:
            body["edge"] = {"storeFault": fault}
        hidden = request._replace(body=body)
        if broker_loggers.names_loggers(api_key, body):
            submitted = await broker_loggers.respond(self._engine, hidden)
        else:
            submitted = await self._engine.submit(hidden)
        if (
            secrets
            and own is not None
            and not body.get("validateOnly")
            and _is_done(submitted.document(request.version), own)
        ):
            self._passwords.put(request.broker, secrets)
            self._on_change()
        return submitted

    def _then(self, broker: int, resource: Body, api_key: int) -> tuple[dict[str, str], Secrets]:
        """Return the broker's settings after the change, and changed secrets."""
        then: dict[str, str] = {}
        secrets: Secrets = dict.fromkeys(self._passwords.of(broker))
        if api_key == ALTER:
            then, secrets = dict(self._engine.known(broker).changed(broker)), {}
        for each in resource["configs"]:
            name, value = each["name"], each["value"]
            if each.get("configOperation", ConfigOperation.SET) == ConfigOperation.DELETE:
                value = None
                then.pop(name, None)
            elif value is not None:
                then[name] = value
            if is_secret(name) and is_of_store(name):
                secrets[name] = value
        return then, secrets

    def _fault(self, broker: int, then: Mapping[str, str], secrets: Secrets) -> str | None:
        changed, known = self._engine.known(broker).changed(broker), self._passwords.of(broker)
        texts = {name: text for name, text in {**known, **secrets}.items() if text is not None}
        now, wanted = (changed, known), (then, texts)
        faults = (stores.fault(broker, now, wanted) for stores in self._stores_of(broker))
        return next((each for each in faults if each is not None), None)


def _is_of(broker: int, resource: Body) -> bool:
    name = resource["resourceName"]
    is_named = resource["resourceType"] == _BROKER and is_broker_id(name)
    return is_named and int(name) == broker


def _is_done(response: Body, resource: Body) -> bool:
    key = resource["resourceType"], resource["resourceName"]
    return any(
        (each["resourceType"], each["resourceName"]) == key and not each["errorCode"]
        for each in response.get("responses", ())
    )


def _without_secrets(resource: Body) -> Body:
    if resource["resourceType"] != _BROKER:
        return resource
    configs = [
        each | {"value": HIDDEN} if each["value"] is not None and is_secret(each["name"]) else each
        for each in resource["configs"]
    ]
    return resource | {"configs": configs}
