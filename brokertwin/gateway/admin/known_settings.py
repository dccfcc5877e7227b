"""Settings of a cluster that the gateway itself applies.

The local engine reads them from its cell's tables. The engine `spark` builds such tables from its
job's response (`state/cell/edge_settings.py`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brokertwin.gateway.bounded_rates import RateLimit, RequestLimit
from brokertwin.protocol.codec import Body
from brokertwin.protocol.generated.produce import TopicProduceData
from brokertwin.state.cell.edge_settings import EdgeSettings
from brokertwin.state.cluster import broker_configs, client_quotas, quota_rates
from brokertwin.state.cluster.client_quotas import REQUEST_PERCENTAGE
from brokertwin.state.configs import broker_config, codecs
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.records import ClientQuotaAltered, ConfigChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables, MachineTables

BROKER = 4
ALL_BROKERS = "cluster"
JOB_MACHINE = 0
"""Machine id in tables built from a job's response."""


class KnownSettings(NamedTuple):
    """Settings in a machine's metadata table, and those given at the start, without secrets."""

    at: MachineTables
    given: BrokerSettings

    def of(self, broker: int) -> BrokerSettings:
        return broker_configs.settings_of(self.at, broker, self.given)

    def changed(self, broker: int) -> Mapping[str, str]:
        """Return the settings that were altered since a broker's start."""
        layers = self.of(broker).layers
        return {**layers.of_cluster, **layers.of_broker} if layers is not None else {}

    def connection_limit(self, broker: int, host: str) -> RateLimit | None:
        rate = client_quotas.connection_rate(self.at, host)
        return None if rate is None else self._rate_limit(broker, rate)

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        key = REQUEST_PERCENTAGE
        limit = quota_rates.limit_of(self.at, principal, client_id, key)
        if limit is None:
            return None
        return RequestLimit(limit.shared_by, self._rate_limit(broker, limit.value))

    def _rate_limit(self, broker: int, per_second: float) -> RateLimit:
        return RateLimit(per_second, quota_rates.windows_of(self.of(broker)))

    def codec(self, broker: int, configs: Mapping[str, str]) -> TopicCodec | None:
        """Return the codec that a topic's configs require, or None for `producer`."""
        return codecs.of_topic(configs, self.of(broker))


UNKNOWN_SETTINGS = KnownSettings(CellTables().of(JOB_MACHINE), BrokerSettings())
"""Stand-in for the settings of a job that has not reported them."""


class JobSettings(NamedTuple):
    """Settings reported by a job."""

    known: KnownSettings
    codecs: Mapping[str, Mapping[str, str]]

    def codec_of(self, broker: int, topic: TopicProduceData) -> TopicCodec | None:
        """Return the codec that a topic requires, by name or id, or None for `producer`."""
        own = self.codecs.get(topic.name or topic.topic_id, {})
        return self.known.codec(broker, own)


def of_response(response: Body) -> JobSettings:
    """Convert the response to a `tell-settings` event. Raises msgspec.MsgspecError."""
    reported = msgspec.convert(response, EdgeSettings)
    at = CellTables().of(JOB_MACHINE)
    for name, configs in reported.brokers.items():
        resource = "" if name == ALL_BROKERS else name
        for key, value in configs.items():
            changed = ConfigChanged(BROKER, resource, key, value)
            broker_configs.apply_changed(at, changed)
    for quotas in reported.quotas:
        for key, rate in quotas.values.items():
            altered = ClientQuotaAltered(quotas.entity, key, rate)
            client_quotas.apply_altered(at, altered)
    values, _ = broker_config.parse(reported.given)
    return JobSettings(KnownSettings(at, values), reported.codecs)
