"""Both engines on one schedule: the job on Spark answers every exchange as one process does."""

from typing import TYPE_CHECKING

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_clients import client_properties
from brokertwin.kafka_io.topics import admin_client, existing
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read
from brokertwin.settings import Settings, load
from brokertwin.state.configs.broker_config import parse
from brokertwin.streaming.job import replay_engine as engine
from tests.support.patience import wait_until
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURES = ROOT / "tests" / "captures"


def test_the_engines_agree_on_every_exchange_of_the_captures(
    kafka: str, spark: "SparkSession"
) -> None:
    broker_settings, _ = parse(properties.read(CAPTURES / "broker.properties"))
    recording = read(sorted(CAPTURES.glob("*.jsonl.gz")))
    planned = plan(recording, "recorded", broker_settings, is_compared=True)
    flags = {
        "bootstrap": kafka,
        "master": "local[2]",
        "shuffle_partitions": 2,
        "max_offsets_per_trigger": 3000,
    }
    settings = load(flags).settings
    handled: list[int] = []
    responses = engine.run(planned.documents, planned.settings, settings, handled.append, spark)
    assert responses == local.run(planned.documents, planned.settings)
    assert len(responses) + len(planned.schedule.lost) == len(recording.exchanges)
    assert handled[-1] == len(planned.documents)
    assert len(handled) == 3, "in more than one micro-batch"
    wait_until(lambda: own_topics(settings) == [], "the engine's own topics are removed")


def own_topics(settings: Settings) -> list[str]:
    client = client_properties(settings)
    return [name for name in existing(admin_client(client), client) if "replay-" in name]
