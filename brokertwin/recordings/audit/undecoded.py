"""Captured requests that could not be decoded: only their headers are known."""

from collections import Counter

from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.history.clients import deprecated_by
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.findings import DeprecatedVersion
from brokertwin.recordings.replay.recording import of_document
from brokertwin.wording import counted


class Undecoded:
    """Counts of such requests, and the findings about versions that Kafka 4 does not have."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._found: dict[tuple[str, str, int], DeprecatedVersion] = {}

    def take(self, document: Document) -> None:
        line = exchange_of(of_document(document, None)[0]).line
        self._counts[f"{line.api} v{line.version}"] += 1
        if line.is_removed and not line.is_own:
            key = line.name, line.api, line.version
            self._found[key] = deprecated_by(line, self._found.get(key))

    @property
    def findings(self) -> list[DeprecatedVersion]:
        return list(self._found.values())

    @property
    def said(self) -> str:
        """The counts as a sentence; empty if all requests could be decoded."""
        if not self._counts:
            return ""
        versions = ", ".join(f"{name} ({count})" for name, count in self._counts.most_common())
        return f"{counted(self._counts.total(), 'request')} could not be decoded: {versions}."
