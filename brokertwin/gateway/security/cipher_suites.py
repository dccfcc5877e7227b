"""Cipher suites (`ssl.cipher.suites`), by the IANA names that Java uses.

OpenSSL has other names for the suites of TLS 1.2. Python cannot select single suites of TLS 1.3:
all of them are served, or none. As in Java, a version without a suite in the list is disabled. Only
ECDHE suites that OpenSSL considers secure are served.
"""

import re
import ssl
from collections.abc import Sequence

from brokertwin.errors import UserError

SETTING = "ssl.cipher.suites"

OF_TLS_1_3 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_SIGNALS = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
"""A signalling value in Java's lists, not a cipher."""

_SUITE = re.compile(r"TLS_ECDHE_(RSA|ECDSA)_WITH_AES_(128|256)_(\w+)")
_CHACHA = re.compile(r"TLS_ECDHE_(RSA|ECDSA)_WITH_CHACHA20_POLY1305_SHA256")


def restrict(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Restrict a context to the named suites, if any.

    Raises:
        UserError: a suite is unsupported, the list has only some of the TLS 1.3 suites, or no
            enabled version has a suite.
    """
    wanted = [name for name in names if name != _SIGNALS]
    if not wanted:
        return
    older = [name for name in wanted if name not in OF_TLS_1_3]
    newer = OF_TLS_1_3.intersection(wanted)
    if newer and newer != OF_TLS_1_3:
        suites = ", ".join(sorted(OF_TLS_1_3))
        raise UserError(f"{SETTING} has only some of the TLS 1.3 suites.", f"Set all: {suites}.")
    if older:
        _set(context, older)
    least = ssl.TLSVersion.TLSv1_2 if older else ssl.TLSVersion.TLSv1_3
    most = ssl.TLSVersion.TLSv1_3 if newer else ssl.TLSVersion.TLSv1_2
    context.minimum_version = max(context.minimum_version, least)
    context.maximum_version = min(context.maximum_version, most)
    if context.minimum_version > context.maximum_version:
        raise UserError(f"{SETTING} has no suite for the versions in ssl.enabled.protocols.")


def _set(context: ssl.SSLContext, names: Sequence[str]) -> None:
    served = {each["name"] for each in context.get_ciphers()}
    chosen = [openssl_name(name) for name in names]
    for name, of_openssl in zip(names, chosen, strict=True):
        if of_openssl not in served:
            raise UserError(f"Unsupported cipher suite in {SETTING}: {name}.")
    context.set_ciphers(":".join(map(str, chosen)))


def openssl_name(name: str) -> str | None:
    """Return OpenSSL's name of a TLS 1.2 suite, or None."""
    match = _CHACHA.fullmatch(name)
    if match:
        return f"ECDHE-{match[1]}-CHACHA20-POLY1305"
    match = _SUITE.fullmatch(name)
    if not match:
        return None
    digest = match[3].removeprefix("CBC_").replace("_", "-")
    return f"ECDHE-{match[1]}-AES{match[2]}-{digest}"
