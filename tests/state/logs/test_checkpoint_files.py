"""Kafka's offset checkpoint files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.logs import checkpoint_files
from brokertwin.state.logs.checkpoint_files import CheckpointError

SEEDS = ["0", "4", "__consumer_offsets 16 0", "__consumer_offsets 49 124"]
SEEDS += ["admin.benchmark 9 24564634", "test 13 16709"]


def test_example_4_the_file_of_the_seed() -> None:
    entries = checkpoint_files.parse("\n".join(SEEDS) + "\n")
    assert entries["admin.benchmark", 9] == 24564634
    assert len(entries) == 4


def test_example_4_missing_line() -> None:
    with pytest.raises(CheckpointError, match="3 entries instead of 4"):
        checkpoint_files.parse("\n".join(SEEDS[:-1]))


def test_empty_file_has_no_entries() -> None:
    assert checkpoint_files.parse("") == {}


def test_any_whitespace_separates() -> None:
    assert checkpoint_files.parse("0\n1\nt\t0  7\n") == {("t", 0): 7}


@pytest.mark.parametrize("text", ["1\n0", "x\n0", "0", "0\nx", "0\n1\nt 0", "0\n1\nt 0 x"])
def test_invalid_file_raises(text: str) -> None:
    with pytest.raises(CheckpointError):
        checkpoint_files.parse(text)


names = st.text("abc._-", min_size=1)


@given(st.dictionaries(st.tuples(names, st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_rendered_offsets_are_parsed(entries: checkpoint_files.Offsets) -> None:
    assert checkpoint_files.parse(checkpoint_files.render(entries)) == entries


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)))
def test_rendered_leader_epochs_are_parsed(epochs: checkpoint_files.Epochs) -> None:
    assert checkpoint_files.parse_epochs(checkpoint_files.render_epochs(epochs)) == epochs


@pytest.mark.parametrize("text", ["1\n0", "0\n1\n3", "0\n1\n3 4 5", "0\n2\n3 4", "0\n1\nx 4"])
def test_invalid_leader_epoch_file_raises(text: str) -> None:
    with pytest.raises(CheckpointError):
        checkpoint_files.parse_epochs(text)
