r"""Principal of a client certificate, like Kafka's default principal builder.

The name is the certificate's subject in RFC 2253 form as Java writes it: last part first, only
keywords of RFC 2253 (other attributes by OID with their DER in hexadecimal), special characters
escaped with `\`. `ssl.principal.mapping.rules` can map it to another name.

The certificate is well-formed because OpenSSL has verified it.

Sources: `DefaultKafkaPrincipalBuilder`, `SslPrincipalMapper` in Kafka; KIP-371;
`X500Principal.getName` in Java, which produced the table in the tests.
"""

import re
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.security.der import DerElement, oid, part, parts

SETTING = "ssl.principal.mapping.rules"
DEFAULT = "DEFAULT"

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_VERSION = 0xA0
_SUBJECT = 4
"""Index of the subject in a certificate's fields."""

_TEXTS = frozenset({12, 19, 20, 22, 27, 28, 30})
"""DER tags of string types that Java writes as text."""

_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"\s*(?:,|$)"
)
_REFERENCE = re.compile(r"\$(\d+)|\\(.)")


class PrincipalRule(NamedTuple):
    """A rule of `ssl.principal.mapping.rules`, for a full match; no pattern: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        made = self.pattern.sub(self._made, name)  # all matches, as in Java
        return {"L": str.lower, "U": str.upper}.get(self.case, str)(made)

    def _made(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda each: _referred(match, each), self.replacement)


def parse_rules(text: str) -> list[PrincipalRule]:
    """Parse the rules of a setting. Raises UserError."""
    rules = []
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None or match.end() == at:
            raise UserError(f"Invalid rule in {SETTING}: {text[at:]!r}.")
        at = match.end()
        if match["default"]:
            rules.append(PrincipalRule(None))
        elif match["pattern"] is not None:
            rules.append(
                PrincipalRule(_compiled(match["pattern"]), match["replacement"], match["case"])
            )
    return rules


def principal_of(certificate: bytes, rules: list[PrincipalRule]) -> str | None:
    """Return the principal of a certificate in DER, or None if no rule matches."""
    name = distinguished_name(certificate)
    made = (rule.apply(name) for rule in rules)
    return next((f"User:{each}" for each in made if each is not None), None)


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, in RFC 2253 form."""
    return name_text(certificate, fields_of(certificate)[_SUBJECT])


def fields_of(certificate: bytes) -> list[DerElement]:
    signed = part(certificate, part(certificate, 0).content)
    return [each for each in parts(certificate, signed) if each.tag != _VERSION]


def name_text(data: bytes, name: DerElement) -> str:
    """Format a DER name in RFC 2253 form: last part first."""
    sets = [
        "+".join(_attribute(data, attribute) for attribute in parts(data, relative))
        for relative in parts(data, name)
    ]
    return ",".join(reversed(sets))


def _attribute(data: bytes, attribute: DerElement) -> str:
    kind, value = parts(data, attribute)
    kind_id = oid(data[kind.content : kind.end])
    if kind_id not in _KEYWORDS or value.tag not in _TEXTS:
        return f"{_KEYWORDS.get(kind_id, kind_id)}=#{data[value.begin : value.end].hex()}"
    text = data[value.content : value.end].decode(errors="replace")
    return f"{_KEYWORDS[kind_id]}={_escape(text)}"


def _escape(text: str) -> str:
    inner = text.strip(" ")
    ahead = len(text) - len(text.lstrip(" "))
    behind = len(text) - ahead - len(inner)
    escaped = _ESCAPED.sub(r"\\\g<0>", inner).replace("\0", "\\00")
    return "\\ " * ahead + escaped + "\\ " * behind


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(f"Invalid pattern in {SETTING}: {pattern}: {error}.") from None


def _referred(match: re.Match[str], reference: re.Match[str]) -> str:
    """Replace `$1` or an escaped character; an unknown group stays unchanged."""
    if reference[1] is None:
        return reference[2]
    digits, rest = reference[1], ""
    while int(digits) > match.re.groups and len(digits) > 1:
        digits, rest = digits[:-1], digits[-1] + rest
    if int(digits) > match.re.groups:
        return reference[0]
    return (match[int(digits)] or "") + rest
