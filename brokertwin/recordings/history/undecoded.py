"""Captured requests that could not be decoded: only their headers are known."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import asdict, replace

from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.history.clients import deprecated_by
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.findings import DeprecatedVersion, Severity, VersionRefused
from brokertwin.recordings.replay.recording import of_document
from brokertwin.wording import counted

_Key = tuple[str, str, int]
"""Client, API and version."""


class Undecoded:
    """Counts of such requests, and the findings about versions that Kafka 4 does not have.

    A broker that has answered a version once has it: connections that ended before without a
    response ended for another reason.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._counts = Counter[str]()
        self._of_clients = Counter[str]()
        self._found: dict[_Key, DeprecatedVersion] = {}
        self._refused: dict[int, dict[_Key, DeprecatedVersion]] = {}
        for document in documents:
            self.take(document)

    def take(self, document: Document) -> None:
        line = exchange_of(of_document(document, None)[0]).line
        self._counts[f"{line.api} v{line.version}"] += 1
        self._of_clients[line.name] += 1
        if not line.is_removed or line.is_own:
            return
        key = line.name, line.api, line.version
        self._found[key] = deprecated_by(line, self._found.get(key))
        refused, outcome = self._refused.setdefault(line.broker, {}), document.rest
        if "responseSizeInBytes" in outcome:
            for other in [each for each in refused if each[1:] == key[1:]]:
                del refused[other]
        elif "delivered" in outcome:  # false: the connection ended
            refused[key] = deprecated_by(line, refused.get(key))

    @property
    def findings(self) -> list[DeprecatedVersion]:
        counts, found = Counter[_Key](), list[DeprecatedVersion]()
        for of_broker in self._refused.values():
            for key, each in of_broker.items():
                counts[key] += each.count
                fields = asdict(each) | {"severity": Severity.ERROR}
                found.append(VersionRefused(**fields))
        found += [
            replace(each, count=each.count - counts[key]) for key, each in self._found.items()
        ]
        return [each for each in found if each.count]

    def of_client(self, name: str) -> int:
        """The number of a client's requests that could not be decoded."""
        return self._of_clients[name]

    @property
    def said(self) -> str:
        """The counts as a sentence; empty if all requests could be decoded."""
        if not self._counts:
            return ""
        versions = ", ".join(f"{name} ({count})" for name, count in self._counts.most_common())
        return f"{counted(self._counts.total(), 'request')} could not be decoded: {versions}."
