"""A certificate authority and certificates for localhost, in PEM."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

VALID = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key (PKCS #8), in PEM."""

    certificate: str
    key: str

    def store(self, file: Path) -> Path:
        """Write both into one file, as Java's PEM key stores have it."""
        file.write_text(self.key + self.certificate, encoding="ascii")
        return file


def hidden(identity: Identity, password: str) -> str:
    key = serialization.load_pem_private_key(identity.key.encode(), None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(*form, encryption).decode()


def of_pkcs12(identity: Identity, password: str) -> bytes:
    """A PKCS12 store with a key and its certificate."""
    key = serialization.load_pem_private_key(identity.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(identity.certificate.encode())
    hidden = serialization.BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(b"broker", key, certificate, [], hidden)


def trust_store(authority: "Authority", password: str) -> bytes:
    """A PKCS12 store with the certificate of an authority, as keytool makes it."""
    certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
    hidden = serialization.BestAvailableEncryption(password.encode())
    entry = pkcs12.PKCS12Certificate(certificate, b"ca")
    return pkcs12.serialize_java_truststore([entry], hidden)


class Authority:
    """A certificate authority for one test."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(_MAY_SIGN, critical=True)
        self._certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self, name: str, host: str = "localhost", lasts: datetime.timedelta = VALID
    ) -> Identity:
        """A certificate for a host, which may be an IP address; it `lasts` so long from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternative = x509.SubjectAlternativeName([_alternative(host)])
        builder = self._builder(subject, key.public_key(), lasts)
        signed = builder.add_extension(alternative, critical=False).sign(self._key, hashes.SHA256())
        return Identity(
            signed.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lasts: datetime.timedelta = VALID
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - VALID,
            not_valid_after=now + lasts,
        )
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(own, critical=False).add_extension(of_issuer, critical=False)


_USES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
_USES += ("key_agreement", "crl_sign", "encipher_only", "decipher_only")
_MAY_SIGN = x509.KeyUsage(key_cert_sign=True, **dict.fromkeys(_USES, False))
"""Usage of an authority's key; Python 3.13 requires it."""


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
