"""Times in texts and fields, in the forms that log layouts and log agents write."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

HOUR_MS = 60 * 60 * 1000
SECONDS = range(946_684_800, 4_102_444_800)
"""Seconds since 1970 that are taken for a time: the years 2000 to 2099."""

TEXT_BYTES_MAX = 2_000
"""Times are looked for at both ends of a text, so far from an end."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

ZONES_H = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2,
    "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12,
    "NZDT": 13, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
    "PDT": -7,
}  # fmt: skip
"""Offsets of abbreviated zones in hours, with the US meaning if an abbreviation has several."""

_CLOCK = (
    rb"(?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?(?: ?(?P<half>[AaPp])[Mm]\b)?"
)
_COMPACT_CLOCK = rb"T?(?P<h>\d\d)(?P<m>\d\d)(?P<s>\d\d)[.,]?(?P<f>\d{3})?(?P<half>)(?!\d)"
_ZONE = (
    rb"(?:[ \[(]{0,2}(?P<zone>(?:GMT|UTC)?[+-]\d\d(?::?\d\d)?(?![\d:-])|Z\b"
    rb"|[A-Z][a-z]+/[A-Z][A-Za-z_]+|(?:[A-Z]{2,4}T|UTC|MSK|MEZ|MESZ)\b))?"
)
_DATES = (
    rb"(?P<y>\d{4})(?P<sep>[-/.])(?P<mo>\d\d)(?P=sep)(?P<d>\d\d)(?:[ T_]|, )" + _CLOCK,
    rb"(?P<y>\d{4})(?P<sep>)(?P<mo>\d\d)(?P<d>\d\d)" + _COMPACT_CLOCK,
    rb"(?P<d>\d{1,2})(?P<sep>[-/. ])(?P<mo>\d\d|[A-Za-z]{3})(?P=sep)(?P<y>\d{4}|\d\d)[ :T,@]{1,3}"
    + _CLOCK,
    rb"(?P<sep>)\b(?P<mo>[A-Z][a-z]{2})[a-z]*\.? {1,2}(?P<d>\d{1,2})(?:,? (?P<y>\d{4}))?[ ,@]{1,3}"
    + _CLOCK,
)
_FORMS = [
    re.compile(rb"(?<![\d.])" + date + _ZONE + rb"(?P<late>(?: \d{4}\b)?)") for date in _DATES
]
_KAFKAS = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] [A-Z]{4,5} ")
"""What Kafka's own configuration writes before a message; it is read more quickly."""

_EPOCH = re.compile(rb"(?<![\w.:/-])\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?![\w:/-])")
_EPOCH_DIGITS = (10, 13, 16, 19)
_START = datetime(1970, 1, 1)  # noqa: DTZ001
_MS = timedelta(milliseconds=1)


class Stamp(NamedTuple):
    """A time that a text or a field names.

    Attributes:
        local_ms: date and time of day in ms, as if they were UTC.
        unit_ms: how exact it is: 1, or 1000 if it has no fraction of a second.
        offset_ms: offset of its zone; None if it names none that is known.
        unknown_zone: the name of its zone if that is not known.
    """

    local_ms: int
    unit_ms: int
    offset_ms: int | None
    unknown_zone: str = ""


def stamps(text: bytes) -> list[Stamp]:
    """The times in a text, in their order."""
    kafkas = _KAFKAS.fullmatch(text)
    if kafkas is not None:
        with suppress(ValueError):
            local = datetime.fromisoformat(kafkas[1].decode("ascii"))
            return [Stamp((local - _START) // _MS + int(kafkas[2]), 1, None)]
    if len(text) > 2 * TEXT_BYTES_MAX:
        text = text[:TEXT_BYTES_MAX] + b"\n" + text[-TEXT_BYTES_MAX:]
    found: list[tuple[int, int, Stamp]] = []
    for form in _FORMS:
        for match in form.finditer(text):
            is_taken = any(a < match.end() and match.start() < b for a, b, _ in found)
            stamp = None if is_taken else _stamp(match)
            if stamp is not None:
                found.append((match.start(), match.end(), stamp))
    for match in _EPOCH.finditer(text):
        stamp = _of_number(match[0].decode("ascii"))
        if stamp is not None:
            found.append((match.start(), match.end(), stamp))
    return [stamp for _, _, stamp in sorted(found)]


def stamp_of(value: Any) -> Stamp | None:
    """The time in a field: text, s, ms, us or ns since 1970, or an object of such parts."""
    if isinstance(value, dict):
        return _of_parts(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _of_number(repr(value))
    if not isinstance(value, str) or len(value) > TEXT_BYTES_MAX:
        return None
    return _of_number(value) or next(iter(stamps(value.encode("utf-8", "replace"))), None)


def _of_parts(value: dict[str, Any]) -> Stamp | None:
    """Seconds and nanoseconds, as in Log4j's `instant`; else the first time in the object."""
    parts = {name.lower(): part for name, part in value.items()}
    seconds = next((part for name, part in parts.items() if "second" in name), None)
    nanos = next((part for name, part in parts.items() if "nano" in name), 0)
    if isinstance(seconds, int | str) and isinstance(nanos, int):
        return _of_number(f"{seconds}.{nanos:09d}")
    return next((stamp for stamp in map(stamp_of, value.values()) if stamp is not None), None)


def _of_number(text: str) -> Stamp | None:
    whole, _, fraction = text.partition(".")
    is_known = len(whole) in _EPOCH_DIGITS and whole.isdecimal() and whole.isascii()
    if not is_known or int(whole[:10]) not in SECONDS or not (fraction or "0").isdecimal():
        return None
    digits = whole[10:] + fraction
    ms = int(whole[:10]) * 1000 + int(digits.ljust(3, "0")[:3])
    return Stamp(ms, 1 if digits else 1000, 0)


def _stamp(match: re.Match[bytes]) -> Stamp | None:
    """The time that a form has found; None if there is no such time."""
    part = {name: (text or b"").decode("ascii") for name, text in match.groupdict().items()}
    month, day, hour = part["mo"], int(part["d"]), int(part["h"])
    if month.isalpha():
        number = _MONTHS.index(month.lower()) + 1 if month.lower() in _MONTHS else 0
    else:
        number = int(month)
    if part["sep"] == "/" and len(part["d"]) and match.start("d") < match.start("mo") and day <= 12:
        number, day = day, number  # 11/22/2026, as Log4j's US patterns
    if part["half"]:
        hour = hour % 12 + (12 if part["half"] in "Pp" else 0)
    try:
        local = datetime(2000, number, day, hour, int(part["m"]), int(part["s"]))  # noqa: DTZ001
        local = local.replace(year=_year(part["y"] or part["late"].strip(), local))
        offset = _offset_of(part["zone"], local)
    except (ValueError, OverflowError):
        return None
    except (ZoneInfoNotFoundError, KeyError):
        offset = None
    ms = int(part["f"].ljust(3, "0")[:3])
    is_unknown = bool(part["zone"]) and offset is None
    return Stamp(
        (local - _START) // _MS + ms,
        1 if part["f"] else 1000,
        offset,
        part["zone"] if is_unknown else "",
    )


def _year(text: str, local: datetime) -> int:
    """The year; syslog names none, then it is the last one that does not give a future time."""
    if text:
        return int(text) if len(text) == 4 else 2000 + int(text)
    now = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    return now.year if local.replace(year=now.year) <= now else now.year - 1


def _offset_of(zone: str, local: datetime) -> int | None:
    """The offset of `+02:00`, `-0330`, `+01`, `CET` or `Europe/Berlin` in ms; None for no zone.

    Raises:
        KeyError: there is no such abbreviation.
        ZoneInfoNotFoundError: there is no such zone.
    """
    if not zone:
        return None
    if "/" in zone:
        offset = ZoneInfo(zone).utcoffset(local.replace(tzinfo=ZoneInfo(zone)))
        return offset // _MS if offset is not None else None
    digits = zone.lstrip("GMTUC").replace(":", "")
    if digits[:1] not in ("+", "-"):
        return ZONES_H[zone] * HOUR_MS
    minutes = int(digits[1:3]) * 60 + int(digits[3:] or 0)
    return (-minutes if digits[0] == "-" else minutes) * 60_000
