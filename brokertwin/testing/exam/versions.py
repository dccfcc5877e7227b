"""Releases other than 4.3.1 as references.

`references/4.4.json` has the goldens of Kafka 4.4 that differ from those of 4.3.1; all others
are the same. `versions.json` has a note for each deviation of Kafka 3.9.1; a note explains
deviations, it does not hide them.
"""

import json
from collections.abc import Iterable
from importlib import resources

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.testing.exam.model import SUFFIX, ExamSubject, Observation, Scenario
from brokertwin.testing.exam.verdicts import VersionNote

ROOM = "brokertwin.testing.exam"
NOTES = "versions.json"


class Reference(msgspec.Struct, frozen=True):
    """A release of Kafka, and its goldens that differ from those of 4.3.1, by scenario."""

    kafka: str
    goldens: dict[str, list[Observation]]


def references() -> dict[str, Reference]:
    """Return the releases by their short names, like `4.4`."""
    folder = resources.files(f"{ROOM}.references")
    return {
        each.name.removesuffix(SUFFIX): read(each.read_bytes())
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.name.endswith(SUFFIX)
    }


def read(data: bytes) -> Reference:
    """Decode the file of a release. Raises msgspec.ValidationError."""
    return msgspec.json.decode(data, type=Reference)


def written(reference: Reference) -> bytes:
    """Encode the file of a release, a scenario a line."""
    goldens = msgspec.to_builtins(reference.goldens)
    scenarios = ",\n".join(f' "{name}": {json.dumps(goldens[name])}' for name in sorted(goldens))
    return f'{{"kafka": "{reference.kafka}", "goldens": {{\n{scenarios}\n}}}}\n'.encode()


def reference_of(version: str) -> Reference | None:
    """Return the reference of a version like `4.4` or `4.4.0`, or None."""
    return next((one for short, one in references().items() if version in (short, one.kafka)), None)


def inheriting(
    chosen: Iterable[tuple[ExamSubject, Scenario]], reference: Reference | None
) -> list[tuple[ExamSubject, Scenario]]:
    """Return scenarios with the goldens of a release in place of those that differ.

    Without a reference, those of the default release; subjects of other releases are left out.
    """
    kafka, own = (reference.kafka, reference.goldens) if reference is not None else ("", {})
    return [
        (subject, msgspec.structs.replace(each, golden=own.get(each.name, each.golden)))
        for subject, each in chosen
        if subject.kafka in (KAFKA_VERSION, kafka)
    ]


def all_notes() -> list[VersionNote]:
    data = resources.files(ROOM).joinpath(NOTES).read_bytes()
    return msgspec.json.decode(data, type=list[VersionNote])


def notes_of(version: str) -> tuple[VersionNote, ...]:
    """Return the notes on a version; the default has none. Raises UserError if it is unknown."""
    if _is_in(KAFKA_VERSION, version):
        return ()
    notes = tuple(
        each for each in all_notes() if any(_is_in(one, version) for one in each.versions)
    )
    if not notes:
        noted = {KAFKA_VERSION, *(one for each in all_notes() for one in each.versions)}
        raise UserError(
            f"Kafka {version} is not known.",
            f"Known versions: {', '.join(sorted({*noted, *references()}))}.",
        )
    return notes


def _is_in(release: str, version: str) -> bool:
    """Whether a release is a version, like `4.3.1` or `4.3`."""
    return "." in version and f"{release}.".startswith(f"{version}.")
