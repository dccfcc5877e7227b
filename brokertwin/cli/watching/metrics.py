"""The status of a job, a live audit or a gateway as Prometheus metrics, named in `METRICS`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from brokertwin.cli.watching.status import Phase, Status

Labelled = Mapping[tuple[str, ...], float]
"""Label values to a number."""


class Described(NamedTuple):
    """A metric's help text and labels. A counter's name ends in `_total`."""

    help: str
    labels: tuple[str, ...] = ()


METRICS: dict[str, Described] = {
    "brokertwin_info": Described(
        "Always 1; labels identify the process", ("kind", "name", "version")
    ),
    "brokertwin_ready": Described("1 while the query runs, or the gateway serves"),
    "brokertwin_start_time_seconds": Described("Start time, in seconds since 1970"),
    "brokertwin_answers_total": Described("Responses since the start", ("api",)),
    "brokertwin_errors_total": Described(
        "Error codes in responses since the start; a response may have several", ("api", "error")
    ),
    "brokertwin_batch": Described("Number of the newest micro-batch"),
    "brokertwin_batch_events": Described("Rows of its topics in the newest micro-batch"),
    "brokertwin_batch_seconds": Described("Duration of the newest micro-batch"),
    "brokertwin_batch_time_seconds": Described(
        "End of the newest micro-batch, in seconds since 1970"
    ),
    "brokertwin_lag_events": Described(
        "Rows of its topics that are not in a committed micro-batch", ("topic", "partition")
    ),
    "brokertwin_lag_time_seconds": Described(
        "Time at which the lag was counted, in seconds since 1970"
    ),
    "brokertwin_rows_total": Described(
        "Rows since the start; of the topic requests, the events in them", ("topic",)
    ),
    "brokertwin_dead_letters_total": Described("Dead letters since the start", ("reason",)),
    "brokertwin_state_bytes": Described(
        "Size of the state rows of cells with events since the start"
    ),
    "brokertwin_fetch_session_partitions_cached": Described(
        "Partitions in the fetch sessions of these cells"
    ),
    "brokertwin_fetch_session_evictions_total": Described("Evicted fetch sessions of these cells"),
    "brokertwin_snapshots_total": Described(
        "Snapshots since the start: published, rejected, failed", ("result",)
    ),
    "brokertwin_snapshot_batch": Described("Micro-batch of the newest snapshot"),
    "brokertwin_snapshot_time_seconds": Described(
        "Time of the newest snapshot, in seconds since 1970"
    ),
    "brokertwin_snapshot_seconds": Described("Duration of the newest snapshot"),
    "brokertwin_snapshot_offsets": Described("Committed offsets in the newest snapshot"),
    "brokertwin_checks_total": Described("Checks since the start: met, unmet, failed", ("result",)),
    "brokertwin_check_batch": Described("Micro-batch of the newest check"),
    "brokertwin_check_findings": Described("Failed expectations of the newest check"),
    "brokertwin_live_findings_total": Described(
        "Findings since the start, without those withdrawn at once", ("kind", "cluster", "client")
    ),
    "brokertwin_live_lines_total": Described("Lines and documents read since the start"),
    "brokertwin_live_exchanges_total": Described("Exchanges read since the start"),
    "brokertwin_live_ignored_exchanges_total": Described(
        "Exchanges that change nothing: repeated, late, without_entity", ("reason",)
    ),
    "brokertwin_live_damaged_lines_total": Described("Lines that could not be read"),
    "brokertwin_live_state_rows": Described("Rows of Spark's state: entities, or buckets of them"),
    "brokertwin_gateway_connections": Described("Open connections"),
    "brokertwin_gateway_waiting": Described("Connections with a pending request"),
    "brokertwin_gateway_failed_authentications_total": Described(
        "Connections that failed SASL authentication"
    ),
    "brokertwin_gateway_stopped_brokers": Described("Stopped brokers"),
    "brokertwin_gateway_answer_seconds": Described(
        "Time from request to response, including long polls", ("api",)
    ),
    "brokertwin_fetch_sessions": Described("Fetch sessions in the state"),
    "brokertwin_groups": Described("Groups in the state", ("state",)),
    "brokertwin_group_lag": Described(
        "Sum of the lags of a group's committed offsets; negative beyond the log end", ("group",)
    ),
    "brokertwin_offsets_beyond_log_end": Described(
        "Committed offsets beyond the log end of their partition"
    ),
    "brokertwin_producers": Described("Producers in the replicas' logs"),
    "brokertwin_transactional_ids": Described("Transactional ids in the state", ("state",)),
    "brokertwin_waiting_requests": Described("Pending requests in the state"),
    "brokertwin_partitions": Described("Partitions of all topics"),
    "brokertwin_under_replicated_partitions": Described(
        "Partitions with replicas that are not in sync"
    ),
    "brokertwin_offline_partitions": Described("Partitions without a leader"),
    "brokertwin_state_time_seconds": Described(
        "Time at which the state was read, in seconds since 1970"
    ),
}
"""Metric name to its description; jobs and gateways each have only their own."""

TOTAL = "_total"
HISTOGRAM = "brokertwin_gateway_answer_seconds"


class StatusCollector(Collector):
    """Create metrics from the document at each scrape."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        status = self._status()
        for name, values in values_of(status).items():
            yield _metric(name, values)
        if status.gateway is not None:
            yield _histogram(status)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration does not need a document."""
        return ()


def registry(status: Callable[[], Status]) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(StatusCollector(status))
    return made


def values_of(status: Status) -> dict[str, Labelled]:
    """Return the values of all metrics except histograms."""
    values = dict(_of_all(status))
    values |= _of_job(status)
    values |= _of_live(status)
    values |= _of_gateway(status)
    values |= _of_state(status)
    if status.lag_time_ms >= 0:
        values["brokertwin_lag_events"] = {
            (each.topic, str(each.partition)): each.rows for each in status.lags
        }
        values["brokertwin_lag_time_seconds"] = _one(status.lag_time_ms / 1000)
    return values


def _of_all(status: Status) -> Iterator[tuple[str, Labelled]]:
    yield "brokertwin_info", {(status.kind, status.name, status.version): 1}
    yield "brokertwin_ready", _one(status.phase is Phase.RUNNING)
    yield "brokertwin_start_time_seconds", _one(status.started_ms / 1000)
    yield "brokertwin_answers_total", _by(status.responses)
    yield (
        "brokertwin_errors_total",
        {
            (api, error): number
            for api, errors in status.errors.items()
            for error, number in errors.items()
        },
    )


def _of_job(status: Status) -> dict[str, Labelled]:
    job = status.job
    if job is None:
        return {}
    values = {
        "brokertwin_rows_total": _by(job.rows),
        "brokertwin_dead_letters_total": _by(job.dead_letters),
        "brokertwin_snapshots_total": _by(job.snapshots.results),
        "brokertwin_checks_total": _by(job.checks.results),
    }
    if job.snapshots.batch >= 0:
        values |= {
            "brokertwin_snapshot_batch": _one(job.snapshots.batch),
            "brokertwin_snapshot_time_seconds": _one(job.snapshots.time_ms / 1000),
            "brokertwin_snapshot_seconds": _one(job.snapshots.seconds),
            "brokertwin_snapshot_offsets": _one(job.snapshots.offsets),
        }
    if job.checks.batch >= 0:
        values |= {
            "brokertwin_check_batch": _one(job.checks.batch),
            "brokertwin_check_findings": _one(job.checks.findings),
        }
    if job.batch < 0:
        return values
    return values | {
        "brokertwin_batch": _one(job.batch),
        "brokertwin_batch_events": _one(job.batch_events),
        "brokertwin_batch_seconds": _one(job.batch_seconds),
        "brokertwin_batch_time_seconds": _one(job.batch_time_ms / 1000),
        "brokertwin_state_bytes": _one(job.state_bytes),
        "brokertwin_fetch_session_partitions_cached": _one(job.fetch_session_partitions),
        "brokertwin_fetch_session_evictions_total": _one(job.fetch_session_evictions),
    }


def _of_live(status: Status) -> dict[str, Labelled]:
    live = status.live
    if live is None:
        return {}
    values: dict[str, Labelled] = {
        "brokertwin_live_findings_total": {
            (each.kind, each.cluster, each.client): each.count for each in live.findings
        },
        "brokertwin_live_lines_total": _one(live.counts.get("lines", 0)),
        "brokertwin_live_exchanges_total": _one(live.counts.get("exchanges", 0)),
        "brokertwin_live_ignored_exchanges_total": {
            (name,): live.counts.get(name, 0) for name in ("repeated", "late", "without_entity")
        },
        "brokertwin_live_damaged_lines_total": _one(live.counts.get("damaged", 0)),
    }
    if live.batch < 0:
        return values
    return values | {
        "brokertwin_batch": _one(live.batch),
        "brokertwin_batch_events": _one(live.batch_rows),
        "brokertwin_batch_seconds": _one(live.batch_seconds),
        "brokertwin_batch_time_seconds": _one(live.batch_time_ms / 1000),
        "brokertwin_live_state_rows": _one(live.state_rows),
    }


def _of_gateway(status: Status) -> dict[str, Labelled]:
    gateway = status.gateway
    if gateway is None:
        return {}
    return {
        "brokertwin_gateway_connections": _one(gateway.connections),
        "brokertwin_gateway_waiting": _one(gateway.waiting),
        "brokertwin_gateway_failed_authentications_total": _one(gateway.failed_authentications),
        "brokertwin_gateway_stopped_brokers": _one(len(gateway.stopped)),
    }


def _of_state(status: Status) -> dict[str, Labelled]:
    state = status.state
    if state is None:
        return {}
    return {
        "brokertwin_fetch_sessions": _one(state.sessions),
        "brokertwin_groups": _by(state.groups),
        "brokertwin_group_lag": _by(state.lags),
        "brokertwin_offsets_beyond_log_end": _one(state.beyond_log_end),
        "brokertwin_producers": _one(state.producers),
        "brokertwin_transactional_ids": _by(state.transactions),
        "brokertwin_waiting_requests": _one(state.waiting),
        "brokertwin_partitions": _one(state.partitions),
        "brokertwin_under_replicated_partitions": _one(state.under_replicated),
        "brokertwin_offline_partitions": _one(state.offline),
        "brokertwin_state_time_seconds": _one(status.state_time_ms / 1000),
    }


def _one(value: float) -> Labelled:
    return {(): float(value)}


def _by(values: Mapping[str, int]) -> Labelled:
    return {(name,): number for name, number in values.items()}


def _metric(name: str, values: Labelled) -> Metric:
    described = METRICS[name]
    family = CounterMetricFamily if name.endswith(TOTAL) else GaugeMetricFamily
    made = family(name, described.help, labels=described.labels)
    for labels, value in values.items():
        made.add_metric(labels, value)
    return made


def _histogram(status: Status) -> Metric:
    described = METRICS[HISTOGRAM]
    made = HistogramMetricFamily(HISTOGRAM, described.help, labels=described.labels)
    assert status.gateway is not None
    for api, times in status.gateway.times.items():
        bounds = [*map(str, times.bounds_s), "+Inf"]
        up_to = accumulate(times.classes)
        made.add_metric([api], list(zip(bounds, up_to, strict=True)), times.sum_s)
    return made
