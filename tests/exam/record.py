"""Records the goldens of the exam with real brokers.

    python -m tests.exam.record [NAME…] [--all] [--at HOST:PORT] [--list]
    python -m tests.exam.record --version 4.4 --at HOST:PORT

Without names, only scenarios with a labelled step without a response are played. Each is played
twice, and must show the same both times. With --version, all scenarios are played with a
running broker of another release, and the goldens that differ are written
(`testing/exam/versions.py`), and those of the subject that only this release has.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol.errors import Error
from brokertwin.settings import default_home
from brokertwin.testing.exam import model, versions
from brokertwin.testing.exam.examination import ExamOptions, play_all
from brokertwin.testing.exam.model import ExamSubject, Observation, Scenario, selected, subjects
from brokertwin.testing.exam.player import codes
from brokertwin.testing.exam.site import look
from brokertwin.testing.exam.verdicts import differences
from tests.support.kafka_clusters import kafka_cluster

FOLDER = Path(model.__file__).parent / "scenarios"
SETTINGS = {
    "auto.create.topics.enable": "true",
    "producer.id.expiration.check.interval.ms": "500",
}
"""Of the recorded broker, besides those of the embedded broker: Kafka's default, and an interval
that is seen only with a short producer.id.expiration.ms."""

RIGHTS = {"super.users": "User:ANONYMOUS"}
"""Read by an authorizer alone."""

CLUSTER = 3
"""Brokers of the cluster that scenarios for several brokers are recorded with."""


def path_of(subject: str) -> Path:
    return FOLDER / f"{subject}{model.SUFFIX}"


def is_recorded(scenario: Scenario) -> bool:
    return [each.label for each in scenario.golden] == scenario.labels


def main(arguments: Sequence[str]) -> int:
    """Record; returns the number of scenarios that could not be recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="subjects, or beginnings of scenario names")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--at", help="a running broker in place of a new one")
    parser.add_argument("--list", action="store_true", help="print each golden's error codes")
    parser.add_argument("--version", metavar="4.4", help="release of the broker at --at")
    given = parser.parse_args(arguments)
    if given.version:
        return _record_reference(given.version, address_of(given.at), given.names)
    chosen = [
        (subject, each)
        for subject, each in selected(given.names)
        if subject.kafka == KAFKA_VERSION and (given.all or given.names or not is_recorded(each))
    ]
    goldens: dict[str, list[Observation]] = {}
    failed = 0
    kinds = {_kind(scenario): scenario for _, scenario in chosen}
    for kind, first in sorted(kinds.items()):
        some = [each for each in chosen if _kind(each[1]) == kind]
        with _site(given.at, first) as (address, restart):
            played, bad = _played(some, address, restart)
        goldens |= played
        failed += bad
    for subject in subjects():
        _write(subject, goldens, given.list)
    return failed


def _record_reference(version: str, address: Address, names: Sequence[str]) -> int:
    """Write the goldens of another release that differ; returns the number of bad scenarios."""
    site = look(address, {n for _, each in selected() for n in each.described_settings})
    chosen = [
        (subject, each)
        for subject, each in selected(names)
        if not site.missing(each) and not site.other_settings(each)
    ]
    found, bad = _played(chosen, address, None)
    path = FOLDER.parent / "references" / f"{version}{model.SUFFIX}"
    former = versions.read(path.read_bytes()).goldens if names and path.is_file() else {}
    differing = {
        scenario.name: found[key]
        for subject, scenario in chosen
        if subject.kafka == KAFKA_VERSION
        and (key := f"{subject.name}/{scenario.name}") in found
        and differences(scenario, found[key])
    }
    for subject in {subject.name: subject for subject, _ in chosen}.values():
        if subject.kafka != KAFKA_VERSION:
            _write(subject, found, False)
    path.write_bytes(versions.written(versions.Reference(f"{version}.0", {**former, **differing})))
    _report(f"{len(differing)} of {len(chosen)} scenarios differ: {', '.join(sorted(differing))}")
    return bad


def _kind(scenario: Scenario) -> tuple[int, tuple[tuple[str, str], ...]]:
    return scenario.brokers, tuple(sorted(scenario.started_with.items()))


@contextmanager
def _site(
    at: str | None, scenario: Scenario
) -> Iterator[tuple[Address, Callable[[], None] | None]]:
    """Provide the address of brokers for a scenario, and how to restart the only one."""
    if at is not None:
        yield address_of(at), None
        return
    with tempfile.TemporaryDirectory() as directory:
        if scenario.brokers > 1:
            with kafka_cluster(Path(directory), CLUSTER) as nodes:
                yield address_of(nodes[1][1]), None
            return
        broker = EmbeddedKafka(Path(directory), default_home())
        settings = {**SETTINGS, **RIGHTS, **scenario.started_with}

        def restart() -> None:
            broker.stop()
            broker.start(settings)

        try:
            yield address_of(broker.start(settings)), restart
        finally:
            broker.stop()


def address_of(text: str) -> Address:
    """Parse HOST:PORT."""
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def _played(
    chosen: Sequence[tuple[ExamSubject, Scenario]],
    address: Address,
    restart: Callable[[], None] | None,
) -> tuple[dict[str, list[Observation]], int]:
    site = look(address, [])._replace(restart=restart)
    goldens: dict[str, list[Observation]] = {}
    bad: set[str] = set()
    for subject, scenario in chosen:
        if reason := site.missing(scenario):
            _report(f"NOT CLAIMED {subject.name}/{scenario.name}: {reason}")
            bad.add(f"{subject.name}/{scenario.name}")
    for _ in range(2):
        for subject, scenario, shown in play_all(chosen, site, ExamOptions(patience=3)):
            name = f"{subject.name}/{scenario.name}"
            former = goldens.setdefault(name, shown.observations)
            if shown.ended is not None:
                _report(f"ENDED {name}: {str(shown.ended)[:1000]}")
                bad.add(name)
            elif former != shown.observations and name not in bad:
                pairs = zip(former, shown.observations, strict=False)
                different = next((pair for pair in pairs if pair[0] != pair[1]), "shorter")
                _report(f"UNSTABLE {name}: {str(different)[:3000]}")
                bad.add(name)
    return {name: found for name, found in goldens.items() if name not in bad}, len(bad)


def _write(subject: ExamSubject, goldens: Mapping[str, list[Observation]], is_listed: bool) -> None:
    scenarios = []
    for scenario in subject.scenarios:
        golden = goldens.get(f"{subject.name}/{scenario.name}")
        scenarios.append(msgspec.structs.replace(scenario, golden=golden or scenario.golden))
        if golden and is_listed:
            _show(scenarios[-1])
    path_of(subject.name).write_bytes(
        model.written(msgspec.structs.replace(subject, scenarios=scenarios))
    )


def _show(scenario: Scenario) -> None:
    """Print rule and errors, to be read side by side."""
    _report(f"{scenario.name}: {scenario.rule}")
    for each in scenario.golden:
        found = sorted(codes(each.response)) if each.value is None else each.value
        shown = [Error(c).name if c in set(Error) else c for c in found] if (
            isinstance(found, list)
        ) else found  # fmt: skip
        _report(f"    {each.label}: {shown}")


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
