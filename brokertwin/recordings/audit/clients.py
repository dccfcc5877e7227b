"""Findings about clients: throttled by quotas, and removed API versions."""

from collections import Counter
from collections.abc import Iterator

from brokertwin.recordings.audit.finding import AuditFinding, grouped
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.findings import ClientThrottled, DeprecatedVersion
from brokertwin.wording import counted


def throttled(history: EntityHistory) -> Iterator[AuditFinding]:
    """Clients that brokers told to wait for their quotas."""
    for findings in grouped(history.found(CLIENTS, ClientThrottled)):
        each = findings[-1]
        said = (
            f"{counted(each.count, 'response')} to {', '.join(each.apis)} told it to wait, up to"
            f" {each.longest_ms} ms, {each.total_ms} ms in all."
        )
        yield AuditFinding.of(findings, said, often=each.count)


def deprecated(history: EntityHistory) -> Iterator[AuditFinding]:
    found = history.found(CLIENTS, DeprecatedVersion)
    for findings in grouped([*found, *history.undecoded.findings]):
        counts = Counter[str]()
        for each in findings:
            counts[f"{each.api} v{each.version}"] += each.count
        versions = ", ".join(f"{version} ({count})" for version, count in counts.items())
        said = f"Uses {counted(len(counts), 'API version')} that Kafka 4 refuses: {versions}."
        yield AuditFinding.of(findings, said, often=sum(each.count for each in findings))


FINDERS = (throttled, deprecated)
