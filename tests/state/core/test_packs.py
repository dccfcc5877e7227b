"""Packs of events: what is written is read, and damage stays where it is."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.packs import PACK_EVENTS_MAX, SEPARATOR, is_packed, packed, unpacked

JSON = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)
DOCUMENTS = st.lists(JSON.map(msgspec.json.encode), min_size=1, max_size=8)


@given(DOCUMENTS)
def test_what_is_packed_is_unpacked(documents: list[bytes]) -> None:
    assert unpacked(packed(documents)) == documents
    for document in documents:
        assert not is_packed(document)
        assert unpacked(document) == [document]


@given(DOCUMENTS, st.data())
def test_a_pack_that_is_cut_loses_only_its_end(documents: list[bytes], data: st.DataObject) -> None:
    pack = packed(documents)
    cut = pack[: data.draw(st.integers(1, len(pack)))]
    found = unpacked(cut)
    assert found[:-1] == documents[: len(found) - 1]
    assert documents[len(found) - 1].startswith(found[-1])


@given(DOCUMENTS, st.data())
def test_damaged_bytes_leave_other_events_as_they_are(
    documents: list[bytes], data: st.DataObject
) -> None:
    damaged = data.draw(st.integers(0, len(documents) - 1))
    bytes_there = data.draw(st.binary(max_size=20))
    found = unpacked(packed([*documents[:damaged], bytes_there, *documents[damaged + 1 :]]))
    before, after = documents[:damaged], documents[damaged + 1 :]
    assert found[: len(before)] == before
    assert found[len(found) - len(after) :] == after
    assert len(found) == len(documents) + bytes_there.count(SEPARATOR)


def test_the_rest_of_a_row_of_too_many_events_is_one_event() -> None:
    found = unpacked(packed([b"{}"] * (PACK_EVENTS_MAX + 5)))
    assert found[:-1] == [b"{}"] * (PACK_EVENTS_MAX - 1)
    assert found[-1].count(SEPARATOR) == 5
