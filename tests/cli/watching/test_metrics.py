"""The metrics are those that the table names, and their numbers those of the document."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from brokertwin.cli.watching.metrics import METRICS, registry
from brokertwin.cli.watching.status import OfJob, Phase, Status
from tests.support.watched import GATEWAY, JOB, LIVE

GATEWAY_ONLY = {name for name in METRICS if name.startswith("brokertwin_gateway_")}
LIVE_ONLY = {name for name in METRICS if name.startswith("brokertwin_live_")}


def samples(made: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus reads: name and labels to the number."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(generate_latest(made).decode())
        for sample in family.samples
    }


def names(status: Status) -> set[str]:
    """Names of families, a counter's with `_total`."""
    families = text_string_to_metric_families(generate_latest(registry(lambda: status)).decode())
    return {f.name + ("_total" if f.type == "counter" else "") for f in families}


def test_a_job_a_live_audit_and_a_gateway_together_have_every_metric_of_the_table() -> None:
    assert names(JOB) == METRICS.keys() - GATEWAY_ONLY - LIVE_ONLY
    assert names(LIVE) >= LIVE_ONLY | {"brokertwin_lag_events", "brokertwin_batch_seconds"}
    assert names(GATEWAY) | names(JOB) | names(LIVE) == METRICS.keys()
    assert not names(GATEWAY) & {"brokertwin_lag_events", "brokertwin_batch"}


def test_the_numbers_are_the_documents() -> None:
    found = samples(registry(lambda: JOB))
    assert found["brokertwin_answers_total", (("api", "FETCH"),)] == 5000
    session_gone = (("api", "FETCH"), ("error", "FETCH_SESSION_ID_NOT_FOUND"))
    assert found["brokertwin_errors_total", session_gone] == 4
    assert found["brokertwin_dead_letters_total", (("reason", "not JSON"),)] == 2
    assert found["brokertwin_groups", (("state", "Stable"),)] == 5
    assert found["brokertwin_under_replicated_partitions", ()] == 2
    assert found["brokertwin_batch_time_seconds", ()] == 1_700_000_061.0
    assert found["brokertwin_ready", ()] == 1


def test_findings_are_counted_by_kind_cluster_and_client() -> None:
    found = samples(registry(lambda: LIVE))
    labels = (("client", "billing-1"), ("cluster", "shop"), ("kind", "offset-back"))
    assert found["brokertwin_live_findings_total", labels] == 2
    assert found["brokertwin_live_exchanges_total", ()] == 138_600
    assert found["brokertwin_live_damaged_lines_total", ()] == 3
    assert found["brokertwin_batch_seconds", ()] == 3.5


def test_response_times_are_a_histogram_whose_classes_add_up() -> None:
    found = samples(registry(lambda: GATEWAY))
    name = "brokertwin_gateway_answer_seconds"
    api = ("api", "METADATA")
    bounds = {labels[1][1]: n for (of, labels), n in found.items() if of == f"{name}_bucket"}
    assert bounds == {"0.001": 4, "0.01": 6, "+Inf": 7}
    assert found[f"{name}_count", (api,)] == 7
    assert found[f"{name}_sum", (api,)] == 0.25


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING])
def test_before_the_first_micro_batch_there_are_no_numbers_of_one(phase: Phase) -> None:
    early = Status(
        kind="job", name="shop", version="1", phase=phase, time_ms=2, started_ms=1, rate=0.0,
        responses={}, errors={}, points=[], job=OfJob(),
    )  # fmt: skip
    found = samples(registry(lambda: early))
    assert found["brokertwin_ready", ()] == 0
    assert {name for name, _ in found} == {
        "brokertwin_info", "brokertwin_ready", "brokertwin_start_time_seconds",
    }  # fmt: skip
