"""Key and trust stores that are altered while a broker runs (`kafka-configs`).

Values under the listener's prefix, including passwords (`store_passwords.py`), apply to the next
connection to that broker. Stores that Kafka would reject are rejected (`store_checks.py`). If
accepted stores cannot be loaded later, after a restart or without their passwords, a warning is
logged and the previous stores stay in force.

Source: `SslFactory.reconfigure`, `SslConfigs.RECONFIGURABLE_CONFIGS` in Kafka (KIP-226).
"""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import store_checks
from brokertwin.gateway.security.store_checks import ListenerStores, StoreError
from brokertwin.gateway.security.tls import Tls
from brokertwin.state.configs.dynamic_configs import is_secret
from brokertwin.state.configs.setting_kinds import OF_LISTENERS

_log = structlog.get_logger("brokertwin.gateway")


Changed = tuple[Mapping[str, str], Mapping[str, str]]
"""A broker's altered settings, with only the names of secrets; and the secrets' values."""


class _Altered(NamedTuple):
    """Altered settings of a broker's listener, and its current TLS."""

    own: Mapping[str, str]
    tls: Tls
    stores: ListenerStores | None


class AlteredStores:
    """TLS of each broker.

    Args:
        given: TLS with the settings of the start.
        start: those settings, if `given` also includes `own`.
        own: altered settings included in `given`.
    """

    def __init__(
        self,
        tls: Tls,
        start: BrokerProperties | None = None,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._start = start or tls.properties
        known = self._start.named(OF_LISTENERS, own)
        self._given = _Altered(known, tls, _loaded(tls.properties))
        self._altered: dict[int, _Altered] = {}

    def context(self, broker: int, now: Changed) -> ssl.SSLContext:
        """Return the context for a new connection to a broker with altered settings."""
        return self._now(broker, now).tls.context()

    def fault(self, broker: int, now: Changed, then: Changed) -> str | None:
        """Return why Kafka would reject the change of settings, or None."""
        known = self._now(broker, now)
        before = self._start.altered(known.own)
        after = self._start.altered(self._own(then))
        if all(before.given(each) == after.given(each) for each in OF_LISTENERS):
            return None
        stores = _loaded(before) or known.stores
        return store_checks.fault(stores, after) or _unserved(after)

    def _own(self, now: Changed) -> dict[str, str]:
        """Return the listener's own settings; an unknown secret keeps its value of the start."""
        changed, passwords = now
        own = self._start.named(OF_LISTENERS, changed)
        return {
            name: passwords.get(name, "") if is_secret(name) else text
            for name, text in own.items()
            if name in passwords or not is_secret(name)
        }

    def _now(self, broker: int, now: Changed) -> _Altered:
        own = self._own(now)
        known = self._altered.get(broker, self._given)
        if own != known.own:
            properties = self._start.altered(own)
            try:
                is_given = own == self._given.own
                tls = self._given.tls if is_given else Tls(properties)
                known = _Altered(own, tls, _loaded(properties))
                _log.info("stores altered", broker=broker)
            except (UserError, ValueError, OSError) as error:
                _log.warning("stores not altered", broker=broker, reason=str(error))
                known = known._replace(own=own)
            self._altered[broker] = known
        return known


def _loaded(properties: BrokerProperties) -> ListenerStores | None:
    """Return the content of stores, or None if they cannot be loaded."""
    try:
        return store_checks.load(properties)
    except StoreError:
        return None


def _unserved(properties: BrokerProperties) -> str | None:
    """Return why the gateway cannot serve stores that Kafka accepts, as a load failure."""
    try:
        Tls(properties)
    except UserError as error:
        _log.warning("new stores rejected", reason=error.message)
        location = properties.given("ssl.keystore.location") or ""
        kind = store_checks.type_of(properties, "ssl.keystore", location)
        return store_checks.refusal(store_checks.not_loaded(location, kind))
    return None
