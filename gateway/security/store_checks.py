"""What Kafka says of key and trust stores that a listener is given while it runs (KIP-226).

A store has to load, and the certificates of the key store have the names of those before it, unless
`ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise. The words are Kafka's and Java's,
in the order in which they are found there:

    settings that do not go together        InvalidConfigurationException
    a store that is not there, or damaged, or whose password is another one     KafkaException
    a key whose password is another one     KafkaException
    another subject, then other alternative names       ConfigException
    a trust store where there was none      ConfigException

A type that was not given is that of the file, where Kafka takes JKS. A PEM store whose key belongs
to another certificate is refused; Kafka takes it, and nobody can connect any more.

Source: `DefaultSslEngineFactory`, `SslFactory.CertificateEntries` in Kafka; answers of 4.3.1. Not
done: the handshake that Kafka tries with the stores of the brokers' own listener.
"""

import re
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import certificate_names, key_stores, principals
from brokertwin.gateway.security.key_stores import JKS, PEM, Entry, KeyPasswordError, KeyStore

ALLOW_NAMES, ALLOW_ALTERNATIVE = "ssl.allow.dn.changes", "ssl.allow.san.changes"
_CONFIG = "org.apache.kafka.common.config.ConfigException"
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_KAFKA = "org.apache.kafka.common.KafkaException"
_UNRECOVERABLE = "java.security.UnrecoverableKeyException"
_PEM_ALIAS = "kafka"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN (ENCRYPTED |)PRIVATE KEY-----")


class Stores(NamedTuple):
    """What is in a listener's stores: the key store's entries, and whether somebody is trusted."""

    keys: tuple[Entry, ...] | None
    has_trust: bool


class StoreError(Exception):
    """Kafka refuses the stores; the text begins with Java's name of the exception."""


def load(properties: BrokerProperties) -> Stores:
    """What is in a listener's stores. Raises StoreError where Kafka could not load them."""
    keys = _key_entries(properties)
    return Stores(keys, _has_trust(properties))


def fault(now: Stores | None, then: BrokerProperties) -> str | None:
    """What Kafka has against these stores after those; None: it takes them."""
    try:
        found = load(then)
        if now is not None:
            _check_names(now.keys, found.keys, then)
            if found.has_trust and not now.has_trust:
                raise _error(
                    _CONFIG,
                    "Cannot add SSL truststore to an existing listener for which no truststore was"
                    " configured.",
                )
    except StoreError as error:
        return refusal(str(error))
    except (ValueError, IndexError):  # a certificate that is none
        location = then.given("ssl.keystore.location") or ""
        return refusal(not_loaded(location, type_of(then, "ssl.keystore", location)))
    return None


def refusal(why: str) -> str:
    """The refusal of stores."""
    return f"Validation of dynamic config update of SSLFactory failed: {why}"


def not_loaded(location: str, kind: str) -> str:
    """What is said of a store that cannot be loaded."""
    if kind == PEM:
        return f"{_INVALID}: Failed to load PEM SSL keystore {location}"
    return f"{_KAFKA}: Failed to load SSL keystore {location} of type {kind}"


def type_of(properties: BrokerProperties, name: str, location: str) -> str:
    """The type of a store as it was given, else that of its file."""
    given = properties.given(f"{name}.type")
    if given is not None:
        return given
    try:
        return key_stores.content(Path(location), name, None)[0]
    except UserError:
        return JKS


def _key_entries(properties: BrokerProperties) -> tuple[Entry, ...] | None:
    name = "ssl.keystore"
    location, password = (properties.given(f"{name}.{part}") for part in ("location", "password"))
    key, chain = (properties.given(f"{name}.{part}") for part in ("key", "certificate.chain"))
    of_key = properties.given("ssl.key.password")
    kind = JKS if location is None else type_of(properties, name, location)
    if key is not None:
        _check_inline_key(properties, chain, location, password)
        return _of_pem(f"{key}\n{chain}", of_key, f"{_INVALID}: Invalid PEM keystore configs")
    if chain is not None:
        said = "SSL certificate chain is specified, but private key is not specified"
        raise _error(_INVALID, said)
    if kind == PEM and location is not None:
        if password is not None and properties.given(f"{name}.type") is not None:
            said = "SSL key store password cannot be specified with PEM format, only key password"
            raise _error(_INVALID, f"{said} may be specified")
        return _of_pem(_text(location), of_key, not_loaded(location, PEM))
    if location is None and password is not None:
        said = "SSL key store is not specified, but key store password is specified."
        raise _error(_INVALID, said)
    if location is None:
        return None
    if password is None:
        said = "SSL key store is specified, but key store password is not specified."
        raise _error(_INVALID, said)
    return _of_store(location, kind, name, password, of_key).entries


def _check_inline_key(
    properties: BrokerProperties, chain: str | None, location: str | None, password: str | None
) -> None:
    kind = properties.given("ssl.keystore.type") or JKS
    if kind != PEM:
        said = f"SSL private key can be specified only for PEM, but key store type is {kind}."
    elif chain is None:
        said = "SSL private key is specified, but certificate chain is not specified."
    elif location is not None:
        said = "Both SSL key store location and separate private key are specified."
    elif password is not None:
        said = "SSL key store password cannot be specified with PEM format, only key password may"
        said += " be specified."
    else:
        return
    raise _error(_INVALID, said)


def _has_trust(properties: BrokerProperties) -> bool:
    name = "ssl.truststore"
    location, password = (properties.given(f"{name}.{part}") for part in ("location", "password"))
    certificates = properties.given(f"{name}.certificates")
    kind = JKS if location is None else type_of(properties, name, location)
    if certificates is not None:
        kind = properties.given(f"{name}.type") or JKS
        if kind != PEM:
            said = "SSL trust store certs can be specified only for PEM, but trust store type is"
            raise _error(_INVALID, f"{said} {kind}.")
        if location is not None:
            said = "Both SSL trust store location and separate trust certificates are specified."
            raise _error(_INVALID, said)
    if kind == PEM and (certificates is not None or location is not None):
        if password is not None and properties.given(f"{name}.type") is not None:
            said = "SSL trust store password cannot be specified for PEM format."
            raise _error(_INVALID, said)
        if certificates is not None:
            said = f"{_INVALID}: No matching CERTIFICATE entries in PEM file"
            _certificates(certificates, said, f"{_INVALID}: Invalid PEM truststore configs")
        elif location is not None:
            said = not_loaded(location, PEM)
            _certificates(_text(location), said, said)
        return True
    if location is None and password is not None:
        said = "SSL trust store is not specified, but trust store password is specified."
        raise _error(_INVALID, said)
    if location is not None and (password is not None or not Path(location).is_file()):
        _of_store(location, kind, name, password or "", None)
    return location is not None


def _of_store(location: str, kind: str, name: str, password: str, of_key: str | None) -> KeyStore:
    """What a PKCS12 or JKS store has. Java takes the one for the other."""
    try:
        found, data = key_stores.content(Path(location), name, kind)
        store = key_stores.read(found, data, name, password, of_key)
    except KeyPasswordError:
        raise _error(_KAFKA, f"{_UNRECOVERABLE}: Cannot recover key") from None
    except UserError:
        raise StoreError(not_loaded(location, kind)) from None
    if found != JKS and of_key is not None and of_key != password:
        raise _error(
            _KAFKA,
            f"{_UNRECOVERABLE}: Get Key failed: Given final block not properly padded. Such issues"
            " can arise if a bad key is used during decryption.",
        )
    return store


def _of_pem(text: str, password: str | None, said: str) -> tuple[Entry, ...]:
    """The entry of a PEM store, whose key is encrypted where there is a password, and only then."""
    keys = _KEY.findall(text)
    if len(keys) != 1 or bool(keys[0]) != (password is not None):
        raise StoreError(said)
    return (Entry(_PEM_ALIAS, _certificates(text, said, said)[0]),)


def _certificates(text: str, said_of_none: str, said_of_bad: str) -> list[bytes]:
    """The certificates of a PEM text, in DER."""
    try:
        found = [ssl.PEM_cert_to_DER_cert(each) for each in _CERTIFICATE.findall(text)]
        for each in found:
            principals.distinguished_name(each)
    except (ValueError, IndexError):
        raise StoreError(said_of_bad) from None
    if not found:
        raise StoreError(said_of_none)
    return found


def _text(location: str) -> str:
    try:
        return key_stores.bytes_of(Path(location)).decode("utf-8", "replace")
    except OSError:
        return ""


def _check_names(
    now: tuple[Entry, ...] | None, then: tuple[Entry, ...] | None, properties: BrokerProperties
) -> None:
    """Raises StoreError where the certificates have other names."""
    if now is None or then is None:
        if now != then:
            how = "add SSL keystore to" if now is None else "remove the SSL keystore from"
            had = "no" if now is None else "a"
            said = f"Cannot {how} an existing listener for which {had} keystore was configured."
            raise _error(_CONFIG, said)
        return
    may_change = [properties.value(each) for each in (ALLOW_NAMES, ALLOW_ALTERNATIVE)]
    if not all(may_change) and len(now) != len(then):
        said = f"existing store contains {len(now)} entries, new store contains {len(then)} entries"
        raise _error(_CONFIG, f"Keystore entries do not match, {said}")
    for old, new in zip(now, then, strict=False) if not may_change[0] else ():
        if _comparable(old) != _comparable(new):
            names = (certificate_names.subject(each.certificate) for each in (old, new))
            raise _error(_CONFIG, _differ("DistinguishedName", "DN", (old, new), names))
    for old, new in zip(now, then, strict=False) if not may_change[1] else ():
        known = [certificate_names.alternative_names(each.certificate) for each in (old, new)]
        if not set(known[0]) <= set(known[1]):
            texts = map(certificate_names.text_of, known)
            raise _error(_CONFIG, _differ("SubjectAltNames", "SAN", (old, new), texts))


def _comparable(entry: Entry) -> str:
    return " ".join(principals.distinguished_name(entry.certificate).casefold().split())


def _differ(what: str, short: str, entries: tuple[Entry, Entry], texts: Iterable[str]) -> str:
    old, new = (
        f"{{alias={entry.alias}, {short}={text}}}"
        for entry, text in zip(entries, texts, strict=True)
    )
    verb = "does" if what == "DistinguishedName" else "do"
    return f"Keystore {what} {verb} not match:  existing={old}, new={new}"


def _error(kind: str, said: str) -> StoreError:
    return StoreError(f"{kind}: {said}")
