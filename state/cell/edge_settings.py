"""Settings that a gateway applies itself, for an event `tell-settings`.

The machine applies most settings. The edge applies those of work before the machine: codecs of
topics, quotas for connections and for the edge's own time, limits of connections. A gateway with
the machine in its process reads the tables; one before a job sends an event. Values that may be
credentials are left out; changed ones appear by name.
"""

import msgspec

from brokertwin.state.access.redaction import is_sensitive
from brokertwin.state.cluster import client_quotas, given_configs, image
from brokertwin.state.cluster.client_quotas import EntityQuotas
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.tables import unescape

COMPRESSION = "compression."
"""Prefix of topic settings about the codec of batches."""


class EdgeSettings(msgspec.Struct, rename="camel"):
    """Settings by Kafka's names, as texts.

    Attributes:
        given: settings that the brokers started with.
        brokers: later changes by broker id, or "cluster" for all brokers.
        codecs: settings of topics, by id and by name.
    """

    given: dict[str, str]
    brokers: dict[str, dict[str, str]]
    quotas: list[EntityQuotas]
    codecs: dict[str, dict[str, str]]


def of(broker: Broker) -> EdgeSettings:
    changed = given_configs.everything(broker, given_configs.BROKERS)
    codecs = {}
    for topic in image.all_topics(broker):
        own = {name: text for name, text in topic.configs.items() if name.startswith(COMPRESSION)}
        if own:
            codecs[topic.topic_id] = codecs[topic.name] = own
    return EdgeSettings(
        _shown(broker.cell.broker_settings.given),
        {unescape(name): _hidden(configs) for name, configs in changed.items()},
        client_quotas.all_quotas(broker),
        codecs,
    )


def _hidden(configs: dict[str, str]) -> dict[str, str]:
    return {name: "" if is_sensitive(name) else text for name, text in configs.items()}


def _shown(configs: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in configs.items() if not is_sensitive(name)}
