"""Kafka's configuration keys: types, defaults, bounds, parsing.

The messages are Kafka's. Source: `ConfigDef` and its validators in Kafka.
"""

import re
from enum import StrEnum
from typing import NamedTuple, TypeVar

_Number = TypeVar("_Number", int, float)

Value = bool | int | float | str | list[str] | None


class Type(StrEnum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD

_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
_BITS = {SHORT: 16, INT: 32, LONG: 64}
_WHOLE = re.compile(r"[+-]?\d{1,99}")
_DECIMAL = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d{1,3})[fFdD]?"
)
_UNBOUNDED = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"}
_THROTTLED = re.compile(r"(?:[0-9]+:[0-9]+)?")
_THROTTLED_FORM = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class InvalidConfigError(ValueError):
    """A value that Kafka rejects for a configuration key, with Kafka's message."""


class ConfigKey(NamedTuple):
    """A configuration key.

    Numbers are between `least` and `most`, both inclusive, or one of `also`. Texts and elements of
    a list are one of `choices`, if there are any. `is_throttled` marks lists of throttled replicas,
    `is_of_4_4` keys that Kafka has since 4.4.
    """

    type: Type
    default: str | None = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    also: tuple[int, ...] = ()
    ignores_case: bool = False
    is_throttled: bool = False
    is_of_4_4: bool = False


def trim(text: str) -> str:
    """Like Java's `String.trim`: strips all characters up to the space."""
    return text.strip(_TRIMMED)


def parse(name: str, key: ConfigKey, text: str) -> Value:
    """Parse a value. Raises InvalidConfigError if Kafka would reject it."""
    trimmed = trim(text)
    match key.type:
        case Type.BOOLEAN:
            return _boolean(name, text)
        case Type.SHORT | Type.INT | Type.LONG:
            return _bounded(name, key, _whole(name, key.type, text))
        case Type.DOUBLE:
            return _bounded(name, key, _double(name, text))
        case Type.LIST:
            return _list(name, key, trimmed)
        case _:
            _check_choice(name, key, trimmed)
            return trimmed


def _boolean(name: str, text: str) -> bool:
    lower = trim(text).lower()
    if lower not in ("true", "false"):
        raise _invalid(name, text, "Expected value to be either true or false")
    return lower == "true"


def _whole(name: str, kind: Type, text: str) -> int:
    trimmed = trim(text)
    if _WHOLE.fullmatch(trimmed):
        value = int(trimmed)
        if -(2 ** (_BITS[kind] - 1)) <= value < 2 ** (_BITS[kind] - 1):
            return value
    raise _invalid(name, text, f"Not a number of type {kind}")


def _double(name: str, text: str) -> float:
    trimmed = trim(text)
    if match := _DECIMAL.fullmatch(trimmed):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(trimmed):
        return float.fromhex(match[1])
    if trimmed in _UNBOUNDED:
        return float(_UNBOUNDED[trimmed])
    raise _invalid(name, text, f"Not a number of type {Type.DOUBLE}")


def _bounded(name: str, key: ConfigKey, value: _Number) -> _Number:
    if value in key.also:
        return value
    below = key.least is not None and value < key.least
    above = key.most is not None and value > key.most
    if key.also and (below or above):
        also = " or ".join(str(other) for other in key.also)
        raise _invalid(
            name, value, f"Value must be between {key.least} and {key.most} or equal to {also}"
        )
    if below:
        raise _invalid(name, value, f"Value must be at least {key.least}")
    if above:
        raise _invalid(name, value, f"Value must be no more than {key.most}")
    return value


def _list(name: str, key: ConfigKey, trimmed: str) -> list[str]:
    elements = [trim(element) for element in trimmed.split(",")] if trimmed else []
    if key.is_throttled:
        if elements != ["*"] and not all(_THROTTLED.fullmatch(each) for each in elements):
            listed = f"[{', '.join(elements)}]"
            raise _invalid(
                name,
                listed,
                f"{name} must be the literal '*' or a list of replicas in the following format:"
                f" {_THROTTLED_FORM}",
            )
        return elements
    if "" in elements:
        raise InvalidConfigError(f"Configuration '{name}' values must not be empty.")
    for element in elements:
        _check_choice(name, key, element)
    return elements


def _check_choice(name: str, key: ConfigKey, text: str) -> None:
    known = text in key.choices or (key.ignores_case and text.upper() in key.choices)
    if key.choices and not known:
        how = " (case insensitive)" if key.ignores_case else ""
        raise _invalid(name, text, f"String must be one of{how}: {', '.join(key.choices)}")


def _invalid(name: str, value: object, reason: str) -> InvalidConfigError:
    text = str(value).replace("inf", "Infinity") if isinstance(value, float) else str(value)
    return InvalidConfigError(f"Invalid value {text} for configuration {name}: {reason}")
