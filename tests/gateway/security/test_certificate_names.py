"""Certificates' names, as Java's `toString` of them was seen to be."""

import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from brokertwin.gateway.security import certificate_names
from brokertwin.gateway.security.principals import distinguished_name
from tests.support.certificates import VALID, Authority

NAMES = [
    (NameOID.COUNTRY_NAME, "DE"),
    (NameOID.LOCALITY_NAME, "München"),
    (NameOID.ORGANIZATION_NAME, "Acme, Inc."),
    (NameOID.ORGANIZATIONAL_UNIT_NAME, 'R+D "x" \\'),
    (NameOID.STREET_ADDRESS, "  two  "),
    (NameOID.TITLE, "dr"),
    (NameOID.SERIAL_NUMBER, "12"),
    (NameOID.EMAIL_ADDRESS, "a@b.c"),
    (NameOID.DN_QUALIFIER, "q"),
    (NameOID.PSEUDONYM, "ps"),
    (NameOID.COMMON_NAME, "a=b"),
    (NameOID.COMMON_NAME, "a  b"),
    (NameOID.COMMON_NAME, "é'"),
]
SUBJECT = (
    'CN=é\', CN="a  b", CN="a=b", OID.2.5.4.65=ps, DNQ=q, EMAILADDRESS=a@b.c, SERIALNUMBER=12,'
    ' T=dr, STREET="  two  ", OU="R+D \\"x\\" \\\\", O="Acme, Inc.", L=München, C=DE'
)
ALTERNATIVE = [
    x509.DNSName("localhost"),
    x509.DNSName("b.example"),
    x509.DNSName("c.example"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
    x509.RFC822Name("a@b.c"),
    x509.UniformResourceIdentifier("http://x/"),
    x509.RegisteredID(x509.ObjectIdentifier("1.2.3")),
    x509.DirectoryName(
        x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, "q"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "o"),
            ]
        )
    ),
]
SHOWN = (
    "[[2, b.example], [2, localhost], [7, 0:0:0:0:0:0:0:1], [7, 127.0.0.1], [4, O=o,CN=q],"
    " [6, http://x/], [8, 1.2.3], [2, c.example], [1, a@b.c]]"
)


def test_names_are_those_that_java_prints() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in NAMES])
    builder = Authority()._builder(name, key.public_key(), VALID)
    extended = builder.add_extension(x509.SubjectAlternativeName(ALTERNATIVE), critical=False)
    found = extended.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    assert certificate_names.subject(found) == SUBJECT
    names = certificate_names.alternative_names(found)
    assert certificate_names.text_of(names) == SHOWN
    assert distinguished_name(found).startswith("CN=é',")
