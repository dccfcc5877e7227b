"""What the gateway knows of a cluster's settings that it acts on itself.

The engine `local` reads them in its cell's tables; the engine `spark` makes such tables of what its
job tells (`state/cell/edge_settings.py`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brokertwin.gateway.bounded_rates import RateLimit, RequestLimit
from brokertwin.gateway.engine.engine import Body
from brokertwin.state.cell.edge_settings import EdgeSettings
from brokertwin.state.cluster import broker_configs, client_quotas, quota_rates
from brokertwin.state.cluster.client_quotas import REQUEST_PERCENTAGE
from brokertwin.state.configs import broker_config, codecs
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.records import ClientQuotaAltered, ConfigChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

BROKER = 4
ALL_BROKERS = "cluster"
NOBODYS = 0
"""The machine in tables that are made of what a job tells."""


class KnownSettings(NamedTuple):
    """Settings as a machine has them in its table of metadata, and as the brokers were given."""

    table: Table
    machine: int
    given: BrokerSettings

    def of(self, broker: int) -> BrokerSettings:
        """Those that hold for a broker."""
        return broker_configs.settings_of(self.table, self.machine, broker, self.given)

    def changed(self, broker: int) -> Mapping[str, str]:
        """Those that hold for a broker other than those that it was started with."""
        layers = self.of(broker).layers
        return {**layers.of_cluster, **layers.of_broker} if layers is not None else {}

    def connection_limit(self, broker: int, host: str) -> RateLimit | None:
        """How fast a broker takes connections from an address; None: as fast as they come."""
        rate = client_quotas.connection_rate(self.table, self.machine, host)
        return None if rate is None else self._rate_limit(broker, rate)

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        """How much of the gateway's time a client's requests may take; None: all of it."""
        key = REQUEST_PERCENTAGE
        limit = quota_rates.limit_of(self.table, self.machine, principal, client_id, key)
        if limit is None:
            return None
        return RequestLimit(limit.shared_by, self._rate_limit(broker, limit.value))

    def _rate_limit(self, broker: int, per_second: float) -> RateLimit:
        return RateLimit(per_second, quota_rates.windows_of(self.of(broker)))

    def codec(self, broker: int, configs: Mapping[str, str]) -> TopicCodec | None:
        """The codec that a topic with these settings asks for; None: that of the producer."""
        return codecs.of_topic(configs, self.of(broker))


class ToldSettings(NamedTuple):
    """What a job has told."""

    known: KnownSettings
    codecs: Mapping[str, Mapping[str, str]]

    def codec_of(self, broker: int, topic: Body) -> TopicCodec | None:
        """The codec that a topic of a Produce request asks for, by name or id."""
        own = self.codecs.get(topic.get("name") or topic.get("topicId", ""), {})
        return self.known.codec(broker, own)


def of_told(response: Body) -> ToldSettings:
    """What the answer to a `tell-settings` says. Raises msgspec.MsgspecError."""
    told = msgspec.convert(response, EdgeSettings)
    table = Table()
    for name, configs in told.brokers.items():
        resource = "" if name == ALL_BROKERS else name
        for key, value in configs.items():
            changed = ConfigChanged(BROKER, resource, key, value)
            broker_configs.apply_changed(table, NOBODYS, changed)
    for quotas in told.quotas:
        for key, rate in quotas.values.items():
            altered = ClientQuotaAltered(quotas.entity, key, rate)
            client_quotas.apply_altered(table, NOBODYS, altered)
    given, _ = broker_config.parse(told.given)
    return ToldSettings(KnownSettings(table, NOBODYS, given), told.codecs)
