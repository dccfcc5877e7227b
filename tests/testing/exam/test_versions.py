"""Releases other than 4.3.1: goldens that differ, and notes."""

import pytest

from brokertwin.errors import UserError
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.verdicts import differences
from brokertwin.testing.exam.versions import (
    inheriting,
    notes_of,
    read,
    reference_of,
    references,
    written,
)


@pytest.mark.parametrize("version", references())
def test_a_release_has_goldens_for_what_differs_alone(version: str) -> None:
    reference = references()[version]
    recorded = {scenario.name: scenario for _, scenario in selected()}
    assert reference.goldens
    for name, golden in reference.goldens.items():
        assert differences(recorded[name], golden), name
        labels = [step.label for step in recorded[name].steps if step.label]
        assert [each.label for each in golden] == labels, name
    assert read(written(reference)) == reference


def test_scenarios_inherit_all_other_goldens() -> None:
    reference = reference_of("4.4")
    assert reference is not None
    assert reference_of("4.4.0") == reference
    chosen = list(selected(["streams_"]))
    pairs = list(zip(chosen, inheriting(chosen, reference), strict=True))
    changed = {after.name for (_, before), (_, after) in pairs if before != after}
    assert changed == {name for name in reference.goldens if name.startswith("streams_")}
    assert 0 < len(changed) < len(chosen)


def test_an_unknown_version_names_the_known_ones() -> None:
    assert reference_of("0.8") is None
    with pytest.raises(UserError, match=r"Kafka 0\.8 is not known.*3\.9\.1, 4\.3\.1, 4\.4"):
        notes_of("0.8")


def test_the_default_and_short_versions_are_known() -> None:
    assert notes_of("4.3") == notes_of("4.3.1") == ()
    assert notes_of("3.9") == notes_of("3.9.1") != ()
    for unknown in ("3", "4", "3.9.", "4.3.0", "3.9.1.0", "3.90"):
        with pytest.raises(UserError):
            notes_of(unknown)
