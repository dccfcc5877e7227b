"""A certificate's names as Java prints them: its subject, and the alternative names.

The subject is as in RFC 1779: the last part first, `"` around what has a meaning. Kafka says both
when it refuses a key store whose certificate has other names.

Sources: `X500Principal.toString`, `X509Certificate.getSubjectAlternativeNames` in Java.
"""

import re
from ipaddress import IPv6Address, ip_address

from brokertwin.gateway.security import principals
from brokertwin.gateway.security.der import Part, oid, part, parts
from brokertwin.state.core.java_hashes import JavaMap, java_hash

_KEYWORDS = principals.KEYWORDS | {
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
    "2.5.4.4": "SURNAME",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.12": "T",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATION",
    "2.5.4.46": "DNQ",
}
_QUOTED = re.compile(r'[,+=\n<>#;\\"]|^ | $|  ')
_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
_OTHER, _DIRECTORY, _ADDRESS, _ID = 0, 4, 7, 8
_NUMBER_OF_TAG = 0x1F

AlternativeName = tuple[int, str]
"""What kind of name it is, and the name."""


def subject(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    name = principals.fields_of(certificate)[principals.SUBJECT]
    sets = [
        " + ".join(_attribute(certificate, attribute) for attribute in parts(certificate, each))
        for each in parts(certificate, name)
    ]
    return ", ".join(reversed(sets))


def _attribute(data: bytes, attribute: Part) -> str:
    kind, value = parts(data, attribute)
    kind_id = oid(data[kind.content : kind.end])
    keyword = _KEYWORDS.get(kind_id, f"OID.{kind_id}")
    if value.tag not in principals.TEXTS:
        return f"{keyword}=#{data[value.begin : value.end].hex()}"
    text = data[value.content : value.end].decode(errors="replace")
    if _QUOTED.search(text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{keyword}="{escaped}"'
    return f"{keyword}={text}"


def alternative_names(certificate: bytes) -> list[AlternativeName]:
    """The alternative names of a certificate in DER, in the order of Java's set of them."""
    found: dict[AlternativeName, None] = {}
    for field in principals.fields_of(certificate):
        if field.tag == _EXTENSIONS:
            for extension in parts(certificate, part(certificate, field.content)):
                inner = list(parts(certificate, extension))
                if oid(certificate[inner[0].content : inner[0].end]) == _ALTERNATIVE_NAMES:
                    names = part(certificate, inner[-1].content)
                    found |= {_name(certificate, each): None for each in parts(certificate, names)}
    return list(JavaMap.holding(_hash, found))


def _name(data: bytes, name: Part) -> AlternativeName:
    kind, value = name.tag & _NUMBER_OF_TAG, data[name.content : name.end]
    if kind == _ADDRESS:
        address = ip_address(value)
        if isinstance(address, IPv6Address):
            groups = (int(group, 16) for group in address.exploded.split(":"))
            return kind, ":".join(f"{group:x}" for group in groups)
        return kind, str(address)
    if kind == _DIRECTORY:
        return kind, principals.name_text(data, part(data, name.content))
    if kind == _ID:
        return kind, oid(value)
    return kind, value.hex() if kind == _OTHER else value.decode(errors="replace")


def _hash(name: AlternativeName) -> int:
    """`List.hashCode` of the two."""
    return (31 * (31 + name[0]) + java_hash(name[1])) & 0xFFFFFFFF


def text_of(names: list[AlternativeName]) -> str:
    """A set of alternative names."""
    return f"[{', '.join(f'[{kind}, {name}]' for kind, name in names)}]"
