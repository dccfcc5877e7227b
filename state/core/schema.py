"""Typed bodies of Kafka requests and responses, with the versions in which each field exists.

A body is a `msgspec.Struct` whose JSON names are Kafka's camelCase schema names. A field that does
not exist in every version of its API says so: `Annotated[Int32, since(1)]`. `render` writes a body
as Kafka's request log does: only the fields of that version, tagged fields only where they differ
from their default (`RequestConvertToJson` in Kafka).
"""

from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

Int8 = Annotated[int, Meta(ge=-(2**7), le=2**7 - 1)]
Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
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


class Versions(NamedTuple):
    """The versions of its API in which a field is written."""

    first: int
    last: int
    is_tagged: bool


def since(first: int, until: int = VERSION_MAX) -> Versions:
    """A field of the versions `first` to `until`, both inclusive."""
    return Versions(first, until, False)


def tagged(first: int) -> Versions:
    """A tagged field: from version `first` on, written where it differs from its default."""
    return Versions(first, VERSION_MAX, True)


class _Field(NamedTuple):
    attribute: str
    name: str
    holds_bodies: bool
    is_tagged: bool
    default: Any


def render(body: Body, version: int) -> dict[str, Any]:
    """`body` as a JSON-ready dictionary with exactly the fields that `version` has."""
    document: dict[str, Any] = {}
    for field in _plan(type(body), version):
        value = getattr(body, field.attribute)
        if field.is_tagged and value == field.default:
            continue
        if field.holds_bodies and value is not None:
            if isinstance(value, list):
                value = [render(element, version) for element in value]
            else:
                value = render(value, version)
        document[field.name] = value
    return document


@lru_cache(maxsize=4096)
def _plan(body_type: type[Body], version: int) -> tuple[_Field, ...]:
    hints = get_type_hints(body_type, include_extras=True)
    fields = []
    for info in msgspec.structs.fields(body_type):
        hint = hints[info.name]
        versions = next((m for m in _metadata(hint) if isinstance(m, Versions)), None)
        if versions is not None and not versions.first <= version <= versions.last:
            continue
        is_tagged = versions is not None and versions.is_tagged
        default = info.default
        if info.default_factory is not msgspec.NODEFAULT:
            default = info.default_factory()
        fields.append(_Field(info.name, info.encode_name, _holds_bodies(hint), is_tagged, default))
    return tuple(fields)


def _metadata(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(hint, "__metadata__", ()))


def _holds_bodies(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Annotated or origin is list:
        return _holds_bodies(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(_holds_bodies(part) for part in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Body)
