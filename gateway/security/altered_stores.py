"""Key and trust stores that a broker's listener is given while it runs, as `kafka-configs` can.

What is altered under the listener's name counts for the next connection to that broker, passwords,
too (`store_passwords.py`). What Kafka would refuse is refused (`store_checks.py`). Stores that were
taken and cannot be loaded later, after a restart or without the passwords, are warned of, and those
before them stay in force.

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
from brokertwin.gateway.security.store_checks import StoreError, Stores
from brokertwin.gateway.security.tls import Tls
from brokertwin.state.configs.dynamic_configs import is_secret
from brokertwin.state.configs.setting_kinds import OF_LISTENERS

_log = structlog.get_logger("brokertwin.gateway")


Changed = tuple[Mapping[str, str], Mapping[str, str]]
"""A broker's settings other than those of the start, of secrets the names alone; their texts."""


class _Altered(NamedTuple):
    """What a broker's listener was given, and what it serves."""

    own: Mapping[str, str]
    tls: Tls
    stores: Stores | None


class AlteredStores:
    """TLS of each broker.

    Args:
        given: TLS by the settings of the start.
        start: those settings, where `given` has others besides: `own`.
        own: what it has besides.
    """

    def __init__(
        self,
        given: Tls,
        start: BrokerProperties | None = None,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._start = start or given.properties
        known = self._start.named(OF_LISTENERS, own)
        self._given = _Altered(known, given, _loaded(given.properties))
        self._altered: dict[int, _Altered] = {}

    def context(self, broker: int, now: Changed) -> ssl.SSLContext:
        """That for a new connection to a broker whose settings have changed since the start."""
        return self._now(broker, now).tls.context()

    def fault(self, broker: int, now: Changed, then: Changed) -> str | None:
        """What Kafka has against the settings `then`, in the place of those that hold now."""
        known = self._now(broker, now)
        before = self._start.altered(known.own)
        after = self._start.altered(self._own(then))
        if all(before.given(each) == after.given(each) for each in OF_LISTENERS):
            return None
        stores = _loaded(before) or known.stores
        return store_checks.fault(stores, after) or _unserved(after)

    def _own(self, now: Changed) -> dict[str, str]:
        """The listener's own; a secret whose text is not known is that of the start."""
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


def _loaded(properties: BrokerProperties) -> Stores | None:
    """What is in stores; None where that cannot be told."""
    try:
        return store_checks.load(properties)
    except StoreError:
        return None


def _unserved(properties: BrokerProperties) -> str | None:
    """Why stores that Kafka takes cannot be served here, in its words for what it cannot load."""
    try:
        Tls(properties)
    except UserError as error:
        _log.warning("new stores rejected", reason=error.message)
        location = properties.given("ssl.keystore.location") or ""
        kind = store_checks.type_of(properties, "ssl.keystore", location)
        return store_checks.refusal(store_checks.not_loaded(location, kind))
    return None
