"""Typed bodies of Kafka requests and responses, with the versions in which each field exists.

A body is a `msgspec.Struct` whose JSON names are Kafka's camelCase schema names. A field that does
not exist in every version of its API says so: `Annotated[Int32, since(1)]`. `render` writes a body
as Kafka's request log does: only the fields of that version, tagged fields only where they differ
from their default (`RequestConvertToJson` in Kafka). A tagged field whose default is `UNSET` has a
value only where it differs, and who makes a body leaves the fields that are `given` in other
versions alone UNSET. So nothing has to be cut out of a body of whose other fields its version has
all: msgspec writes it as it is (`shown`).
"""

from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

Int8 = Annotated[int, Meta(ge=-(2**7), le=2**7 - 1)]
Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
UInt16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

Float64 = float | Literal["Infinity", "-Infinity", "NaN"]
"""A double; one that JSON has no number for goes by its name, as in Kafka's request log."""

Uuid = str
"""A topic id as Kafka prints it: 16 bytes in base64url without padding, 22 characters."""

ZERO_UUID: Uuid = "AAAAAAAAAAAAAAAAAAAAAA"

VERSION_MAX = 2**15 - 1


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """A request, a response, or a part of one."""


class Lasting(Body, dict=True):
    """A part that many responses share, one after the other: who has made it does not change it.

    It is rendered once for each version, and what is made of it is kept with it.
    """


class Part(dict[str, Any]):
    """What was rendered of a `Lasting`: it is not changed either.

    Attributes:
        kept: what others have made of it, and need not make again, by names of theirs.
    """

    __slots__ = ("kept",)

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(document)
        self.kept: dict[Any, Any] = {}


class Versions(NamedTuple):
    """The versions of its API in which a field is written."""

    first: int
    last: int
    is_tagged: bool = False
    is_given: bool = False


def since(first: int, until: int = VERSION_MAX) -> Versions:
    """A field of the versions `first` to `until`, both inclusive."""
    return Versions(first, until)


def given(first: int, until: int = VERSION_MAX) -> Versions:
    """The same of a field that who makes the body leaves UNSET in all other versions."""
    return Versions(first, until, is_given=True)


def tagged(first: int) -> Versions:
    """A tagged field: from version `first` on, written where it differs from its default."""
    return Versions(first, VERSION_MAX, is_tagged=True)


class _Plan(NamedTuple):
    """What `render` does with a type's fields, by their names in JSON, in one version.

    Those that are `absent` from the version go, and those that are `tagged` where they have this
    value. `nested` are fields that hold bodies of which something goes, and what does. `lasting`
    are names of fields that hold lists of `Lasting`, in Python and in JSON.
    """

    absent: list[str]
    tagged: list[tuple[str, Any]]
    nested: list[tuple[str, "_Plan"]]
    lasting: list[tuple[str, str]]


def render(body: Body, version: int) -> dict[str, Any]:
    """`body` as a JSON-ready dictionary with exactly the fields that `version` has.

    msgspec makes a dictionary of all fields, with those in it; what the version has not is taken
    out. That is on the way of every answer.
    """
    plan = _plan(type(body), version)
    shared = {}
    for name, encoded in plan.lasting:
        shared[encoded] = [_part(each, version) for each in getattr(body, name)]
        body = msgspec.structs.replace(body, **{name: []})
    document: dict[str, Any] = msgspec.to_builtins(body)
    _cut([document], plan)
    document.update(shared)
    return document


def _part(body: Lasting, version: int) -> Part:
    kept: dict[int, Part] = vars(body).setdefault("parts", {})
    found = kept.get(version)
    if found is None:
        found = kept[version] = Part(render(body, version))
    return found


def shown(body: Body, version: int) -> Body | dict[str, Any]:
    """What msgspec writes as `render` says: the body itself, where the version has all of it."""
    return render(body, version) if _is_cut(type(body), version) else body


def _cut(documents: list[dict[str, Any]], plan: _Plan) -> None:
    absent, tagged_ones, nested, _ = plan
    for document in documents:
        for name in absent:
            document.pop(name, None)
        for name, default in tagged_ones:
            if document[name] == default:
                del document[name]
        for name, inner in nested:
            held = document.get(name)
            if held:
                _cut(held if isinstance(held, list) else [held], inner)


@lru_cache(maxsize=4096)
def _is_cut(body_type: type[Body], version: int) -> bool:
    return any(_plan(body_type, version))


@lru_cache(maxsize=4096)
def _plan(body_type: type[Body], version: int) -> _Plan:
    hints = get_type_hints(body_type, include_extras=True)
    plan = _Plan([], [], [], [])
    for info in msgspec.structs.fields(body_type):
        hint, name = hints[info.name], info.encode_name
        versions = next((m for m in _metadata(hint) if isinstance(m, Versions)), None)
        if versions is not None and not versions.first <= version <= versions.last:
            if not versions.is_given:
                plan.absent.append(name)
            continue
        is_tagged = versions is not None and versions.is_tagged
        if is_tagged and info.default is not msgspec.UNSET:
            has_factory = info.default_factory is not msgspec.NODEFAULT
            default = info.default_factory() if has_factory else info.default
            plan.tagged.append((name, msgspec.to_builtins(default)))
        bodies = _bodies_in(hint)
        assert len(bodies) <= 1, f"{name}: which type it has cannot be told from a dictionary"
        if any(issubclass(body, Lasting) for body in bodies):
            plan.lasting.append((info.name, name))
            continue
        for body in bodies:
            inner = plan if body is body_type else _plan(body, version)
            if inner is plan or any(inner):
                plan.nested.append((name, inner))
    return plan


def _metadata(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(hint, "__metadata__", ()))


def _bodies_in(hint: Any) -> set[type[Body]]:
    """The types of bodies that a field may hold, alone or in a list."""
    origin = get_origin(hint)
    if origin is Annotated or origin is list:
        return _bodies_in(get_args(hint)[0])
    if origin in (Union, UnionType):
        return set().union(*map(_bodies_in, get_args(hint)))
    return {hint} if isinstance(hint, type) and issubclass(hint, Body) else set()
