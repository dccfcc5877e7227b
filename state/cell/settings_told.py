"""What a gateway has to know of its cluster to act on settings itself, told when it asks.

The machine acts on most settings; on what is before it, the edge does: codecs of topics, quotas of
connections and of the edge's own time, limits of connections. A gateway with the machine in its
process looks into the tables, one before a job asks with an event `tell-settings`. Values that may
be credentials are not told; of those that were altered the names are.
"""

import msgspec

from brokertwin.state.access.redaction import is_sensitive
from brokertwin.state.cluster import client_quotas, given_configs, image
from brokertwin.state.cluster.client_quotas import EntityQuotas
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.tables import unescape

COMPRESSION = "compression."
"""What the names of a topic's settings begin with that say how its batches are kept."""


class SettingsTold(msgspec.Struct, rename="camel"):
    """Settings by Kafka's names, as texts.

    `given` are those that the brokers began with, `brokers` what was changed since, by the
    broker's id, for all of them under "cluster". `codecs` are those of topics, by id and by name.
    """

    given: dict[str, str]
    brokers: dict[str, dict[str, str]]
    quotas: list[EntityQuotas]
    codecs: dict[str, dict[str, str]]


def of(broker: Broker) -> SettingsTold:
    """What a broker knows."""
    table = broker.tables.metadata
    changed = given_configs.everything(table, broker.id, given_configs.BROKERS)
    codecs = {}
    for topic in image.all_topics(table, broker.id):
        own = {name: text for name, text in topic.configs.items() if name.startswith(COMPRESSION)}
        if own:
            codecs[topic.topic_id] = codecs[topic.name] = own
    return SettingsTold(
        _shown(broker.cell.broker_settings.given),
        {unescape(name): _hidden(configs) for name, configs in changed.items()},
        client_quotas.all_quotas(table, broker.id),
        codecs,
    )


def _hidden(configs: dict[str, str]) -> dict[str, str]:
    return {name: "" if is_sensitive(name) else text for name, text in configs.items()}


def _shown(configs: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in configs.items() if not is_sensitive(name)}
