r"""The principal of a client's certificate, as Kafka's default principal builder names it.

The name is the certificate's subject in the form of RFC 2253, as Java writes it: the last part
first, the keywords of RFC 2253 alone (any other attribute goes by its OID, its value in hexadecimal
DER), `\` before what has a meaning. `ssl.principal.mapping.rules` may make another name of it.

The bytes come from a certificate that OpenSSL has verified: they are well-formed.

Sources: `DefaultKafkaPrincipalBuilder`, `SslPrincipalMapper` in Kafka; KIP-371;
`X500Principal.getName` in Java, with which the tests' table was made.
"""

import re
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.security.der import Part, oid, part, parts

SETTING = "ssl.principal.mapping.rules"
DEFAULT = "DEFAULT"

KEYWORDS = {
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
SUBJECT = 4
"""Which of the fields is the subject."""

TEXTS = frozenset({12, 19, 20, 22, 27, 28, 30})
"""DER's tags of the string types that Java writes as text."""

_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"\s*(?:,|$)"
)
_REFERENCE = re.compile(r"\$(\d+)|\\(.)")


class Rule(NamedTuple):
    """A rule of `ssl.principal.mapping.rules`: the whole name must match. No pattern: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The name that the rule makes, None where it does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        made = self.pattern.sub(self._made, name)  # every match in it, as Java does
        return {"L": str.lower, "U": str.upper}.get(self.case, str)(made)

    def _made(self, found: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda each: _referred(found, each), self.replacement)


def parse_rules(text: str) -> list[Rule]:
    """The rules of a setting. Raises UserError for what is no rule."""
    rules = []
    at = 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None or found.end() == at:
            raise UserError(f"Invalid rule in {SETTING}: {text[at:]!r}.")
        at = found.end()
        if found["default"]:
            rules.append(Rule(None))
        elif found["pattern"] is not None:
            rules.append(Rule(_compiled(found["pattern"]), found["replacement"], found["case"]))
    return rules


def principal_of(certificate: bytes, rules: list[Rule]) -> str | None:
    """The principal of a certificate in DER; None where no rule applies."""
    name = distinguished_name(certificate)
    made = (rule.apply(name) for rule in rules)
    return next((f"User:{each}" for each in made if each is not None), None)


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER, in the form of RFC 2253."""
    return name_text(certificate, fields_of(certificate)[SUBJECT])


def fields_of(certificate: bytes) -> list[Part]:
    """What an authority has signed, without the version."""
    signed = part(certificate, part(certificate, 0).content)
    return [each for each in parts(certificate, signed) if each.tag != _VERSION]


def name_text(data: bytes, name: Part) -> str:
    """A name in DER, in the form of RFC 2253: the last part first."""
    sets = [
        "+".join(_attribute(data, attribute) for attribute in parts(data, relative))
        for relative in parts(data, name)
    ]
    return ",".join(reversed(sets))


def _attribute(data: bytes, attribute: Part) -> str:
    kind, value = parts(data, attribute)
    kind_id = oid(data[kind.content : kind.end])
    if kind_id not in KEYWORDS or value.tag not in TEXTS:
        return f"{KEYWORDS.get(kind_id, kind_id)}=#{data[value.begin : value.end].hex()}"
    text = data[value.content : value.end].decode(errors="replace")
    return f"{KEYWORDS[kind_id]}={_escape(text)}"


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


def _referred(found: re.Match[str], reference: re.Match[str]) -> str:
    """What stands for `$1` or an escaped character; a group that there is not stays as it is."""
    if reference[1] is None:
        return reference[2]
    digits, rest = reference[1], ""
    while int(digits) > found.re.groups and len(digits) > 1:
        digits, rest = digits[:-1], digits[-1] + rest
    if int(digits) > found.re.groups:
        return reference[0]
    return (found[int(digits)] or "") + rest
