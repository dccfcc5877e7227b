"""Typed bodies of Kafka's messages, with the versions of each field.

A body is a `msgspec.Struct` whose JSON names are Kafka's schema names. A field that does not exist
in every version is annotated: `Annotated[Int32, since(1)]`. `render` writes a body like Kafka's
request log: the fields of a version, and tagged fields that differ from their default
(`RequestConvertToJson` in Kafka).

A tagged field with the default `UNSET` is set only if it differs. Fields marked `given` are left
UNSET by the code that builds a body of another version. If a body then has only fields of its
version, msgspec writes it directly (`shown`).
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
"""A double; values without a JSON number are names, as in Kafka's request log."""

Uuid = str
"""An id as Kafka prints it: 16 bytes in base64url without padding, 22 characters."""

ZERO_UUID: Uuid = "AAAAAAAAAAAAAAAAAAAAAA"

VERSION_MAX = 2**15 - 1


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """A request, a response, or a part of one."""


class CachedBody(Body, dict=True):
    """A part that many responses share, and that must not change.

    It is rendered and encoded once for each version, and the results are cached with it.
    """


class FieldVersions(NamedTuple):
    first: int
    last: int
    is_tagged: bool = False
    is_given: bool = False


def since(first: int, until: int = VERSION_MAX) -> FieldVersions:
    """A field of the versions `first` to `until`, both inclusive."""
    return FieldVersions(first, until)


def given(first: int, until: int = VERSION_MAX) -> FieldVersions:
    """Like `since`, for a field that is left UNSET in all other versions."""
    return FieldVersions(first, until, is_given=True)


def tagged(first: int) -> FieldVersions:
    """A tagged field from version `first` on, if it is not the default."""
    return FieldVersions(first, VERSION_MAX, is_tagged=True)


class _Plan(NamedTuple):
    """How `render` changes the fields of a type in one version, by JSON name.

    `absent` fields are removed, `tagged` ones if they have this value. `nested` fields contain
    bodies with such fields. `cached` fields are lists of `CachedBody`, by Python and JSON name.
    """

    absent: list[str]
    tagged: list[tuple[str, Any]]
    nested: list[tuple[str, "_Plan"]]
    cached: list[tuple[str, str]]


def render(body: Body, version: int) -> dict[str, Any]:
    """A JSON-ready dictionary of `body` with exactly the fields of `version`.

    msgspec converts all fields; those not in the version are then removed. This is done for every
    response.
    """
    plan = _plan(type(body), version)
    shared = {}
    for name, encoded in plan.cached:
        shared[encoded] = [_part(each, version) for each in getattr(body, name)]
        body = msgspec.structs.replace(body, **{name: []})
    document: dict[str, Any] = msgspec.to_builtins(body)
    _cut([document], plan)
    document.update(shared)
    return document


def _part(body: CachedBody, version: int) -> dict[str, Any]:
    kept: dict[int, dict[str, Any]] = vars(body).setdefault("parts", {})
    if version not in kept:
        kept[version] = render(body, version)
    return kept[version]


def shown(body: Body, version: int) -> Body | dict[str, Any]:
    """Return a value that msgspec encodes like `render`.

    It is the body itself if no field is removed.
    """
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
        versions = next((m for m in _metadata(hint) if isinstance(m, FieldVersions)), None)
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
        assert len(bodies) <= 1, f"{name}: its type does not follow from a dictionary"
        if any(issubclass(body, CachedBody) for body in bodies):
            plan.cached.append((info.name, name))
            continue
        for body in bodies:
            inner = plan if body is body_type else _plan(body, version)
            if inner is plan or any(inner):
                plan.nested.append((name, inner))
    return plan


def _metadata(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(hint, "__metadata__", ()))


def _bodies_in(hint: Any) -> set[type[Body]]:
    """Types of bodies in a field, alone or in a list."""
    origin = get_origin(hint)
    if origin is Annotated or origin is list:
        return _bodies_in(get_args(hint)[0])
    if origin in (Union, UnionType):
        return set().union(*map(_bodies_in, get_args(hint)))
    return {hint} if isinstance(hint, type) and issubclass(hint, Body) else set()
