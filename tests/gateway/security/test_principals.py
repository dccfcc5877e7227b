"""Principals of certificates, as Java and Kafka name them."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from brokertwin.errors import UserError
from brokertwin.gateway.security import principals
from brokertwin.gateway.security.der import part
from brokertwin.gateway.security.principals import distinguished_name, parse_rules, principal_of
from tests.support.certificates import Authority

NAMES = {
    ("3010310e300c06035504030c05616c696365"): "CN=alice",
    (
        "307d310b3009060355040613024445310f300d06035504080c0642617965726e3111300f06035504"
        "070c084dc3bc6e6368656e31133011060355040a0c0a41636d652c20496e632e310c300a06035504"
        "0b0c03522b443117301506035504090c0e31203c4d61696e3e3b2022537422310e300c0603550403"
        "0c05616c696365"
    ): 'CN=alice,STREET=1 \\<Main\\>\\; \\"St\\",OU=R\\+D,O=Acme\\, Inc.,L=München,ST=Bayern,C=DE',
    ("30143112301006035504030c09202378203d205c7920"): "CN=\\ \\#x \\= \\\\y\\ ",
    ("300d310b300906035504030c022378"): "CN=\\#x",
    ("300e310c300a06035504030c03202020"): "CN=\\ \\ \\ ",
    ("300f310d300b06035504030c0461202062"): "CN=a  b",
    (
        "304b311b300806035504030c0161300f060a0992268993f22c6401010c013731173015060a099226"
        "8993f22c64011916076578616d706c6531133011060a0992268993f22c6401191603636f6d"
    ): "DC=com,DC=example,CN=a+UID=7",
    (
        "304e3114301206092a864886f70d01090116056140622e63310e300c06035504030c05616c696365"
        "310b3009060355040513023132310b3009060355040c0c024472310c300a06035504040c03446f65"
    ): "2.5.4.4=#0c03446f65,2.5.4.12=#0c024472,2.5.4.5=#13023132,CN=alice,"
    "1.2.840.113549.1.9.1=#16056140622e63",
    ("3011310f300d06035504031e060062006d0070"): "CN=\\00b\\00m\\00p",
    ("3010310e300c06035504030c05743631c3a9"): "CN=t61é",
    ("30123110300e06092b06010401868d1f010c0178"): "1.3.6.1.4.1.99999.1=#0c0178",
    ("300c310a300806038837030c0178"): "2.999.3=#0c0178",
    ("3010310e300c06035504030c056e756c0078"): "CN=nul\\00x",
    ("301c311a301806035504030c116c696e650a6665656420e4b8adf09f9880"): "CN=line\nfeed 中😀",
    (
        "3031310c300a060355040b0c036f6e65310c300a060355040b0c0374776f3113301106035504030c"
        "0ac3a92728292f3f3a2e2d"
    ): "CN=é'()/?:.-,OU=two,OU=one",
    ("3000"): "",
    ("3021311f300806035504030c017a3008060355040a0c01613009060355040613025553"): "CN=z+O=a+C=US",
    ("3010310e300c06035504030c05c2a078c2a0"): "CN=\u00a0x\u00a0",
    ("300d310b300906035504030c020978"): "CN=\tx",
}
"""DER names in hexadecimal to the output of Java 17's `X500Principal.getName`."""


def certificate(name: str = "alice") -> bytes:
    pem = Authority().issue(name).certificate
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(("der", "text"), NAMES.items(), ids=range(len(NAMES)))
def test_distinguished_name_is_written_like_java(der: str, text: str) -> None:
    data = bytes.fromhex(der)
    assert principals.name_text(data, part(data, 0)) == text


def test_subject_of_a_certificate_is_found() -> None:
    assert distinguished_name(certificate("a" * 60)) == "CN=" + "a" * 60
    assert principal_of(certificate(), parse_rules("DEFAULT")) == "User:CN=alice"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Alice,OU=ops,O=Example"),
        (r"RULE:^CN=(.*?),OU=ops.*$/$1/", "Alice"),
        (r"RULE:^CN=(.*?),OU=ops.*$/$1@ops/L", "alice@ops"),
        (r"RULE:^CN=(.*?),(.*)$/$2$3\$$1/U", "OU=OPS,O=EXAMPLE$3$ALICE"),
        (r"RULE:^OU=(.*)$/$1/, DEFAULT", "CN=Alice,OU=ops,O=Example"),
        (r"RULE:^CN=(.*?),OU=ops,O=Example$/$1\/x/ , DEFAULT", "Alice/x"),
        (r"RULE:^OU=(.*)$/$1/", None),
        (r"RULE:(.*)/x$1/", "xCN=Alice,OU=ops,O=Examplex"),
    ],
)
def test_mapping_rules_build_principal_names(rules: str, name: str | None) -> None:
    made = [rule.apply("CN=Alice,OU=ops,O=Example") for rule in parse_rules(rules)]
    assert next((each for each in made if each is not None), None) == name


@pytest.mark.parametrize("rules", ["default", "RULE:a/b", "RULE:(/x/", "RULE:a/b/X"])
def test_invalid_mapping_rule_is_refused(rules: str) -> None:
    with pytest.raises(UserError, match=principals.SETTING.replace(".", "[.]")):
        parse_rules(rules)
