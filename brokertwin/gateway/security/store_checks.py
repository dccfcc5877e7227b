"""Validation of key and trust stores altered while a listener runs (KIP-226).

A store must load. The certificates of a key store must keep the names of the previous ones, unless
`ssl.allow.dn.changes` and `ssl.allow.san.changes` allow a change. Exceptions, checked in this
order:

    inconsistent settings                               InvalidConfigurationException
    missing or damaged store, or a wrong password       KafkaException
    another subject, then other alternative names       ConfigException
    a trust store, if there was none                    ConfigException

The messages are Kafka's, except for certificate names and reasons of decryption failures. Without a
`type` the content decides, where Kafka assumes JKS. A PEM key of another certificate is rejected;
Kafka accepts it, and then no client can connect.

Source: `DefaultSslEngineFactory`, `SslFactory.CertificateEntries` in Kafka; responses of 4.3.1. Not
done: Kafka's test handshake with the stores of the inter-broker listener.
"""

import re
import ssl
from pathlib import Path
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import principals
from brokertwin.gateway.security.der import oid, part, parts
from brokertwin.kafka_io import key_stores
from brokertwin.kafka_io.key_stores import JKS, PEM, KeyStore, StoreEntry

ALLOW_NAMES, ALLOW_ALTERNATIVE = "ssl.allow.dn.changes", "ssl.allow.san.changes"
_CONFIG = "org.apache.kafka.common.config.ConfigException"
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_KAFKA = "org.apache.kafka.common.KafkaException"
_PEM_ALIAS = "kafka"
_EXTENSIONS_TAG = 0xA3
_SUBJECT_ALTERNATIVE_NAMES = "2.5.29.17"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN (ENCRYPTED |)PRIVATE KEY-----")


class ListenerStores(NamedTuple):
    """Content of a listener's stores: key entries, and whether it has a trust store."""

    keys: tuple[StoreEntry, ...] | None
    has_trust: bool


class StoreError(Exception):
    """Kafka rejects the stores; the message begins with the Java class."""


def load(properties: BrokerProperties) -> ListenerStores:
    """Load a listener's stores. Raises StoreError."""
    keys = _key_entries(properties)
    return ListenerStores(keys, _has_trust(properties))


def fault(now: ListenerStores | None, then: BrokerProperties) -> str | None:
    """Return why Kafka would reject the change of stores, or None."""
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
    except (ValueError, IndexError):  # not a certificate
        location = then.given("ssl.keystore.location") or ""
        return refusal(not_loaded(location, type_of(then, "ssl.keystore", location)))
    return None


def refusal(why: str) -> str:
    """Return the error message for rejected stores."""
    return f"Validation of dynamic config update of SSLFactory failed: {why}"


def not_loaded(location: str, kind: str) -> str:
    if kind == PEM:
        return f"{_INVALID}: Failed to load PEM SSL keystore {location}"
    return f"{_KAFKA}: Failed to load SSL keystore {location} of type {kind}"


def type_of(properties: BrokerProperties, name: str, location: str) -> str:
    """Return the type that was set, or that of the file's content."""
    type_name = properties.given(f"{name}.type")
    if type_name is not None:
        return type_name
    try:
        return key_stores.content(Path(location), name, None)[0]
    except UserError:
        return JKS


def _key_entries(properties: BrokerProperties) -> tuple[StoreEntry, ...] | None:
    name = "ssl.keystore"
    location, password = (properties.given(f"{name}.{part}") for part in ("location", "password"))
    key, chain = (properties.given(f"{name}.{part}") for part in ("key", "certificate.chain"))
    of_key = properties.given("ssl.key.password")
    kind = JKS if location is None else type_of(properties, name, location)
    if key is not None:
        _check_inline_key(properties, chain, location, password)
        return _of_pem(f"{key}\n{chain}", of_key, f"{_INVALID}: Invalid PEM keystore configs")
    if chain is not None:
        message = "SSL certificate chain is specified, but private key is not specified"
        raise _error(_INVALID, message)
    if kind == PEM and location is not None:
        if password is not None and properties.given(f"{name}.type") is not None:
            message = (
                "SSL key store password cannot be specified with PEM format, only key password"
            )
            raise _error(_INVALID, f"{message} may be specified")
        return _of_pem(_text(location), of_key, not_loaded(location, PEM))
    if location is None and password is not None:
        message = "SSL key store is not specified, but key store password is specified."
        raise _error(_INVALID, message)
    if location is None:
        return None
    if password is None:
        message = "SSL key store is specified, but key store password is not specified."
        raise _error(_INVALID, message)
    return _of_store(location, kind, name, password, of_key).entries


def _check_inline_key(
    properties: BrokerProperties, chain: str | None, location: str | None, password: str | None
) -> None:
    kind = properties.given("ssl.keystore.type") or JKS
    if kind != PEM:
        message = f"SSL private key can be specified only for PEM, but key store type is {kind}."
    elif chain is None:
        message = "SSL private key is specified, but certificate chain is not specified."
    elif location is not None:
        message = "Both SSL key store location and separate private key are specified."
    elif password is not None:
        message = (
            "SSL key store password cannot be specified with PEM format, only key password may"
        )
        message += " be specified."
    else:
        return
    raise _error(_INVALID, message)


def _has_trust(properties: BrokerProperties) -> bool:
    name = "ssl.truststore"
    location, password = (properties.given(f"{name}.{part}") for part in ("location", "password"))
    certificates = properties.given(f"{name}.certificates")
    kind = JKS if location is None else type_of(properties, name, location)
    if certificates is not None:
        kind = properties.given(f"{name}.type") or JKS
        if kind != PEM:
            message = "SSL trust store certs can be specified only for PEM, but trust store type is"
            raise _error(_INVALID, f"{message} {kind}.")
        if location is not None:
            message = "Both SSL trust store location and separate trust certificates are specified."
            raise _error(_INVALID, message)
    if kind == PEM and (certificates is not None or location is not None):
        if password is not None and properties.given(f"{name}.type") is not None:
            message = "SSL trust store password cannot be specified for PEM format."
            raise _error(_INVALID, message)
        if certificates is not None:
            message = f"{_INVALID}: No matching CERTIFICATE entries in PEM file"
            _certificates(certificates, message, f"{_INVALID}: Invalid PEM truststore configs")
        elif location is not None:
            message = not_loaded(location, PEM)
            _certificates(_text(location), message, message)
        return True
    if location is None and password is not None:
        message = "SSL trust store is not specified, but trust store password is specified."
        raise _error(_INVALID, message)
    if location is not None and (password is not None or not Path(location).is_file()):
        _of_store(location, kind, name, password or "", None)
    return location is not None


def _of_store(location: str, kind: str, name: str, password: str, of_key: str | None) -> KeyStore:
    """Read a PKCS12 or JKS store. As in Java, either `type` reads both."""
    try:
        found, data = key_stores.content(Path(location), name, kind)
        store = key_stores.read(found, data, name, password, of_key)
    except UserError:
        raise StoreError(not_loaded(location, kind)) from None
    if found != JKS and of_key is not None and of_key != password:
        raise StoreError(not_loaded(location, kind))
    return store


def _of_pem(text: str, password: str | None, message: str) -> tuple[StoreEntry, ...]:
    """Return the entry of a PEM store. Its key is encrypted if and only if there is a password."""
    keys = _KEY.findall(text)
    if len(keys) != 1 or bool(keys[0]) != (password is not None):
        raise StoreError(message)
    return (StoreEntry(_PEM_ALIAS, _certificates(text, message, message)[0]),)


def _certificates(text: str, if_empty: str, if_invalid: str) -> list[bytes]:
    try:
        certificates = [ssl.PEM_cert_to_DER_cert(each) for each in _CERTIFICATE.findall(text)]
        for each in certificates:
            principals.distinguished_name(each)
    except (ValueError, IndexError):
        raise StoreError(if_invalid) from None
    if not certificates:
        raise StoreError(if_empty)
    return certificates


def _text(location: str) -> str:
    try:
        return key_stores.bytes_of(Path(location)).decode("utf-8", "replace")
    except OSError:
        return ""


def _check_names(
    now: tuple[StoreEntry, ...] | None,
    then: tuple[StoreEntry, ...] | None,
    properties: BrokerProperties,
) -> None:
    """Raise StoreError if the certificates have other names."""
    if now is None or then is None:
        if now != then:
            how = "add SSL keystore to" if now is None else "remove the SSL keystore from"
            had = "no" if now is None else "a"
            message = f"Cannot {how} an existing listener for which {had} keystore was configured."
            raise _error(_CONFIG, message)
        return
    may_change = [properties.value(each) for each in (ALLOW_NAMES, ALLOW_ALTERNATIVE)]
    if not all(may_change) and len(now) != len(then):
        message = (
            f"existing store contains {len(now)} entries, new store contains {len(then)} entries"
        )
        raise _error(_CONFIG, f"Keystore entries do not match, {message}")
    for old, new in zip(now, then, strict=False) if not may_change[0] else ():
        if _comparable(old) != _comparable(new):
            raise _mismatch("DistinguishedName does", old, new)
    for old, new in zip(now, then, strict=False) if not may_change[1] else ():
        if not _alternative_names(old) <= _alternative_names(new):
            raise _mismatch("SubjectAltNames do", old, new)


def _comparable(entry: StoreEntry) -> str:
    return " ".join(principals.distinguished_name(entry.certificate).casefold().split())


def _alternative_names(entry: StoreEntry) -> set[bytes]:
    """The subject alternative names of a certificate, each as its DER element."""
    certificate = entry.certificate
    names: set[bytes] = set()
    for field in principals.fields_of(certificate):
        if field.tag != _EXTENSIONS_TAG:
            continue
        for extension in parts(certificate, part(certificate, field.content)):
            kind, *_, value = parts(certificate, extension)
            if oid(certificate[kind.content : kind.end]) == _SUBJECT_ALTERNATIVE_NAMES:
                listed = part(certificate, value.content)
                names |= {certificate[each.begin : each.end] for each in parts(certificate, listed)}
    return names


def _mismatch(what: str, old: StoreEntry, new: StoreEntry) -> StoreError:
    existing, given = (
        f"{{alias={each.alias}, DN={principals.distinguished_name(each.certificate)}}}"
        for each in (old, new)
    )
    return _error(_CONFIG, f"Keystore {what} not match:  existing={existing}, new={given}")


def _error(kind: str, message: str) -> StoreError:
    return StoreError(f"{kind}: {message}")
