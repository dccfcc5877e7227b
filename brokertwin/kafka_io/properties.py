r"""Java's .properties files, as Kafka's clients and broker read them.

Source: the format of java.util.Properties.load: `#` and `!` comments, `=`, `:` or blanks between
name and value, a backslash at the end of a line continues it, `\t \n \r \f \uXXXX` escapes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from brokertwin.errors import UserError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS = 4


def read(path: Path) -> dict[str, str]:
    """Read a file.

    Raises:
        UserError: the file cannot be read, is not UTF-8, or has a broken escape.
    """
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"Cannot read {path}: byte {error.start} is not valid UTF-8.") from None
    except ValueError as error:
        raise UserError(f"Cannot read {path}: {error}.") from None


def parse(text: str) -> dict[str, str]:
    r"""Parse a document; the last value of a repeated name counts.

    Raises:
        ValueError: a `\u` without four hexadecimal digits.
    """
    return dict(_pair(line) for line in _logical_lines(text))


def dump(values: Mapping[str, str]) -> str:
    """Write values in a form that `parse` reads."""
    return "".join(f"{_escape(k, ' :=#!')}={_escape(v, '')}\n" for k, v in values.items())


def _logical_lines(text: str) -> Iterator[str]:
    """Join continued lines; skip comments and blank lines."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    joined = ""
    continued = False
    for natural in lines:
        line = natural.lstrip(_BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continued = False
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        joined += line[:-1] if continued else line
        if not continued:
            yield joined
            joined = ""
    if continued:
        yield joined


def _pair(line: str) -> tuple[str, str]:
    """Split a logical line at the first unescaped separator."""
    end = 0
    while end < len(line) and line[end] not in _BLANKS + "=:":
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return _unescape(line[:end]), _unescape(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            out.append(_unicode(text[at + 2 : at + 2 + _HEX_DIGITS]))
            at += 2 + _HEX_DIGITS
        else:
            follower = text[at + 1 : at + 2]
            out.append(_ESCAPES.get(follower, follower))
            at += 2
    # Two \u escapes may be one character beyond the first plane.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str) -> str:
    if len(digits) < _HEX_DIGITS or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise ValueError(f"\\u must be followed by four hexadecimal digits, not {digits!r}")
    return chr(int(digits, 16))


def _escape(text: str, special: str) -> str:
    r"""Escape what `parse` would take as syntax; leading blanks always."""
    out = text.replace("\\", "\\\\")
    for letter, character in _ESCAPES.items():
        out = out.replace(character, f"\\{letter}")
    for character in special:
        out = out.replace(character, f"\\{character}")
    return f"\\{out}" if out[:1] in ("#", "!", " ") and not special else out
