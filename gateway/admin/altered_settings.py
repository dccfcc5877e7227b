"""AlterConfigs and IncrementalAlterConfigs (keys 33, 44) on their way to the engine.

What only the edge can know of a broker's settings goes with the request: what is wrong with the key
and trust stores that it would have then (`edge.storeFault`). What is secret stays here: the engine
gets the names, not the texts, and the passwords of stores are kept (`store_passwords.py`) when it
has said that they hold.
"""

from collections.abc import Callable, Iterable, Mapping

from brokertwin.gateway.admin import broker_loggers
from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, Engine
from brokertwin.gateway.security.altered_stores import AlteredStores
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.state.access.redaction import HIDDEN
from brokertwin.state.cluster.config_changes import ConfigOperation, is_broker_id
from brokertwin.state.configs.dynamic_configs import is_of_store, is_secret
from brokertwin.state.core.kafka_apis import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS

REPLACE, ALTER = ALTER_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key
APIS = frozenset({REPLACE, ALTER})
_BROKER = 4

Secrets = dict[str, str | None]
"""Texts by the names of settings; None where there is to be none."""

StoresOf = Callable[[int], Iterable[AlteredStores]]
"""The stores of a broker's listeners."""


class AlteredSettings:
    """What becomes of settings that clients alter.

    Args:
        engine: decides.
        stores_of: what is looked into.
        passwords: where secrets of stores go.
        heed: is told when they have changed.
    """

    def __init__(
        self,
        engine: Engine,
        stores_of: StoresOf,
        passwords: StorePasswords,
        heed: Callable[[], None],
    ) -> None:
        self._heed = heed
        self._engine = engine
        self._stores_of = stores_of
        self._passwords = passwords

    async def answer(self, asked: EdgeRequest) -> Answer:
        """What becomes of a request. Raises UnansweredError."""
        api_key = asked.header["requestApiKey"]
        resources = asked.body["resources"]
        own = next((each for each in resources if _is_of(asked.broker, each)), None)
        then, secrets = self._then(asked.broker, own, api_key) if own is not None else ({}, {})
        fault = self._fault(asked.broker, then, secrets) if own is not None else None
        body = asked.body | {"resources": [_without_secrets(each) for each in resources]}
        if fault is not None:
            body["edge"] = {"storeFault": fault}
        hidden = asked._replace(body=body)
        if broker_loggers.are_asked(api_key, body):
            answered = await broker_loggers.answer(self._engine, hidden)
        else:
            answered = await self._engine.submit(hidden)
        if secrets and own is not None and not body.get("validateOnly") and _is_done(answered, own):
            self._passwords.put(asked.broker, secrets)
            self._heed()
        return answered

    def _then(self, broker: int, resource: Body, api_key: int) -> tuple[dict[str, str], Secrets]:
        """The broker's settings as they would be, and what becomes of secrets of its stores."""
        then: dict[str, str] = {}
        secrets: Secrets = dict.fromkeys(self._passwords.of(broker))
        if api_key == ALTER:
            then, secrets = dict(self._engine.changed_settings(broker)), {}
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
        changed, known = self._engine.changed_settings(broker), self._passwords.of(broker)
        texts = {name: text for name, text in {**known, **secrets}.items() if text is not None}
        now, wanted = (changed, known), (then, texts)
        faults = (stores.fault(broker, now, wanted) for stores in self._stores_of(broker))
        return next((each for each in faults if each is not None), None)


def _is_of(broker: int, resource: Body) -> bool:
    """Whether a resource is the broker itself."""
    name = resource["resourceName"]
    is_named = resource["resourceType"] == _BROKER and is_broker_id(name)
    return is_named and int(name) == broker


def _is_done(answered: Answer, resource: Body) -> bool:
    """Whether a resource has been altered."""
    key = resource["resourceType"], resource["resourceName"]
    return any(
        (each["resourceType"], each["resourceName"]) == key and not each["errorCode"]
        for each in (answered.response or {}).get("responses", ())
    )


def _without_secrets(resource: Body) -> Body:
    if resource["resourceType"] != _BROKER:
        return resource
    configs = [
        each | {"value": HIDDEN} if each["value"] is not None and is_secret(each["name"]) else each
        for each in resource["configs"]
    ]
    return resource | {"configs": configs}
