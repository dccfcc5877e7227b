"""Settings that a gateway applies itself."""

from typing import Any

from brokertwin.state.configs import broker_config
from tests.support.configs import BROKER, SET, TOPIC, alter
from tests.support.machine import Bench


def reported(bench: Bench) -> dict[str, Any]:
    """The response to a `tell-settings` event, which changes nothing."""
    before = bench.cell.tables.columns()
    event = {"id": f"q-{bench.now}", "cluster": "bench", "kind": "tell-settings"}
    bench.handle({**event, "time": bench.now})
    assert bench.cell.tables.columns() == before
    return dict(bench.responses[event["id"]]["response"])


def test_gateway_gets_codecs_quotas_and_broker_settings() -> None:
    options = {"quota.window.num": "3", "ssl.keystore.password": "secret"}
    settings, _ = broker_config.parse(options)
    bench = Bench(given=settings.given)
    nothing = {"given": {"quota.window.num": "3"}, "brokers": {}, "quotas": [], "codecs": {}}
    assert reported(bench) == nothing
    packed = bench.topic("packed", compression_type="gzip", retention_ms="7")
    bench.topic("plain", retention_ms="7")
    changes = [("max.connections", SET, "5"), ("no.such.password", SET, "secret")]
    for name in ("", "1"):
        alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, [(BROKER, name, changes)])
    entity = [{"entityType": "ip", "entityName": None}]
    entry = {"entity": entity, "ops": [{"key": "connection_creation_rate", "value": 2.0}]}
    bench.request("ALTER_CLIENT_QUOTAS", 1, {"entries": [entry]})
    bench.now += 1
    codec = {"compression.type": "gzip"}
    values = {"connection_creation_rate": 2.0}
    changed = {"max.connections": "5", "no.such.password": ""}
    assert reported(bench) == {
        **nothing,
        "brokers": {"1": changed, "cluster": changed},
        "quotas": [{"entity": {"ip": None}, "values": values, "number": 1}],
        "codecs": {packed: codec, "packed": codec},
    }
    alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, [(TOPIC, "packed", [("compression.type", 1, "")])])
    bench.now += 1
    assert reported(bench)["codecs"] == {}
