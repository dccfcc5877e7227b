"""Bodies as JSON: exactly the fields of a version."""

from typing import Annotated, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from brokertwin.protocol.bodies import (
    Body,
    CachedBody,
    Int16,
    render,
    shown,
    since,
    tagged,
)
from brokertwin.protocol.bodies import given as given_in


class Part(Body):
    number: int
    error: Annotated[Int16, since(2)] = 0
    hint: Annotated[str, tagged(1)] = "none"


class Tree(Body):
    """Contains its own type, like some responses."""

    name: Annotated[str, since(0, 2)] = ""
    parts: list[Part] = msgspec.field(default_factory=list)
    best: Annotated[Part | None, since(1)] = None
    below: Annotated["Tree | None", tagged(2)] = None
    last: int = 0


parts = st.builds(
    Part, number=st.integers(0, 9), error=st.integers(0, 2), hint=st.sampled_from(["none", "x"])
)
trees = st.recursive(
    st.builds(Tree, name=st.sampled_from("ab"), parts=st.lists(parts), best=st.none() | parts),
    lambda below: st.builds(Tree, below=below, parts=st.lists(parts), last=st.integers(0, 9)),
    max_leaves=4,
)


def part_by_hand(part: Part, version: int) -> dict[str, Any]:
    hint = {"hint": part.hint} if version >= 1 and part.hint != "none" else {}
    return {"number": part.number, **({"error": part.error} if version >= 2 else {}), **hint}


def by_hand(tree: Tree, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": tree.name} if version <= 2 else {}
    found["parts"] = [part_by_hand(part, version) for part in tree.parts]
    if version >= 1:
        found["best"] = tree.best and part_by_hand(tree.best, version)
    if version >= 2 and tree.below is not None:
        found["below"] = by_hand(tree.below, version)
    return {**found, "last": tree.last}


@settings(max_examples=40, deadline=None)
@given(trees, st.integers(0, 3))
def test_body_has_the_fields_of_its_version_in_order(tree: Tree, version: int) -> None:
    rendered = render(tree, version)
    assert msgspec.to_builtins(shown(tree, version)) == rendered
    assert rendered == by_hand(tree, version)
    assert list(rendered) == list(by_hand(tree, version))


class Hinted(Body):
    hint: Annotated[str | UnsetType, tagged(1)] = UNSET
    code: Annotated[int, since(2)] = 0


def test_body_with_only_fields_of_its_version_is_encoded_directly() -> None:
    for body in (Hinted(), Hinted(hint="x")):
        assert shown(body, 2) is body
        hint = {"hint": "x"} if body.hint == "x" else {}
        assert msgspec.to_builtins(body) == render(body, 2) == {**hint, "code": 0}
        assert shown(body, 1) == render(body, 1) == hint
        assert shown(body, 0) == render(body, 0) == {}


class Called(Body):
    name: Annotated[str | UnsetType, given_in(0, 1)] = UNSET
    number: Annotated[int | UnsetType, given_in(2)] = UNSET


def test_given_fields_are_not_removed_in_other_versions() -> None:
    for version, body, written in [(1, Called(name=""), {"name": ""}), (2, Called(number=0), None)]:
        assert shown(body, version) is body
        assert msgspec.to_builtins(body) == render(body, version) == (written or {"number": 0})


class Leaf(CachedBody):
    name: Annotated[str, since(1)] = ""
    parts: list[Part] = msgspec.field(default_factory=list)


class Branch(Body):
    leaves: list[Leaf]
    age: Annotated[int, since(2)] = 0


def test_cached_body_is_rendered_once_for_each_version() -> None:
    leaf = Leaf(name="oak", parts=[Part(number=1)])
    branch, later = Branch(leaves=[leaf, Leaf()]), Branch(leaves=[leaf])
    for version in range(3):
        rendered = render(branch, version)
        assert rendered == shown(branch, version)
        assert rendered["leaves"] == [render(leaf, version), render(Leaf(), version)]
        assert list(rendered) == ["leaves", *(["age"] if version == 2 else [])]
        assert render(later, version)["leaves"][0] is rendered["leaves"][0]
    other = msgspec.structs.replace(leaf, name="ash")
    assert render(Branch(leaves=[other]), 1)["leaves"][0]["name"] == "ash"
