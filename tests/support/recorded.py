"""Exchanges recorded from a real Apache Kafka 4.3.1 broker, and the parts that have to agree.

A line of `tests/state/recorded/*.jsonl[.gz]` is one exchange: `case`, `api`, `version`, `request`,
`response`, and `principal` if the broker authenticates the client. A response is null if the broker
closed the connection. In responses hosts and ports are left out, the cluster's id is `CLUSTER`, and
a new topic's settings are those that are not Kafka's default, each as [name, value, source].
"""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

from tests.support.machine import Bench

RECORDED = Path(__file__).parent.parent / "state" / "recorded"
DEFAULT_SOURCE = 5
HOST = "127.0.0.1"
CLUSTER_ID = "CLUSTER"

Exchange = dict[str, Any]


def exchanges(name: str) -> list[Exchange]:
    """The exchanges of a file, in the order of their recording; long ones are compressed."""
    file = RECORDED / f"{name}.jsonl"
    if file.is_file():
        text = file.read_text(encoding="utf-8")
    else:
        text = gzip.decompress(file.with_suffix(".jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def chosen_ids(response: dict[str, Any] | None) -> dict[str, str]:
    """The topic ids that the real broker drew or knew, by topic name."""
    return {
        topic["name"]: topic["topicId"]
        for topic in (response or {}).get("topics", [])
        if topic.get("topicId") and topic.get("name") and topic.get("errorCode") == 0
    }


def replay(bench: Bench, recorded: list[Exchange]) -> list[tuple[str, Any, Any]]:
    """Hands over the recorded requests; the cases that differ, as (case, recorded, ours)."""
    ids = {
        name: topic_id
        for exchange in reversed(recorded)
        if exchange["api"] == "METADATA"
        for name, topic_id in chosen_ids(exchange["response"]).items()
    }
    differences = []
    for exchange in recorded:
        choices = {
            "clusterId": CLUSTER_ID,
            "topicIds": {**ids, **chosen_ids(exchange["response"])},
        }
        if (exchange["response"] or {}).get("producerId", -1) >= 0:
            choices["producerId"] = exchange["response"]["producerId"]
        if (exchange["response"] or {}).get("sessionId"):
            choices["sessionId"] = exchange["response"]["sessionId"]
        if (exchange["response"] or {}).get("clientInstanceId"):
            choices["clientInstanceId"] = exchange["response"]["clientInstanceId"]
        response = bench.request(
            exchange["api"],
            exchange["version"],
            exchange["request"],
            choices=choices,
            principal=exchange.get("principal", "User:ANONYMOUS"),
            host=HOST,
        )
        ours, theirs = comparable(response), comparable(exchange["response"])
        if ours != theirs:
            case = f"{exchange['api']} v{exchange['version']}: {exchange['case']}"
            differences.append((case, theirs, ours))
    return differences


def comparable(response: dict[str, Any] | None) -> dict[str, Any]:
    """Return a response without fields filled in by the edge, its topics and ACLs sorted."""
    response = copy.deepcopy(response or {})
    response.pop("finalizedFeaturesEpoch", None)
    for place in (response, *response.get("brokers", []), *response.get("coordinators", [])):
        place.pop("host", None)
        place.pop("port", None)
    for topic in response.get("topics", []):
        if topic.get("configs"):
            topic["configs"] = [_config(config) for config in topic["configs"]]
            topic["configs"] = [each for each in topic["configs"] if each[2] != DEFAULT_SOURCE]
    for topic in [*response.get("topics", []), *response.get("responses", [])]:
        for partitions in ("partitions", "partitionResponses"):
            topic.get(partitions, []).sort(key=_text)
    for group in response.get("groups", []):
        group["topics"].sort(key=_text)
    for resource in response.get("resources", []):
        resource["acls"].sort(key=_text)
    for result in response.get("filterResults", []):
        result["matchingAcls"].sort(key=_text)
    for kind in ("topics", "responses", "results", "resources"):
        if kind != "results" or any("name" in each for each in response.get(kind, [])):
            response.get(kind, []).sort(key=_text)
    return response


def _text(part: dict[str, Any]) -> str:
    return json.dumps(part, sort_keys=True)


def _config(config: dict[str, Any] | list[Any]) -> list[Any]:
    if isinstance(config, list):
        return config
    return [config["name"], config["value"], config["configSource"]]
