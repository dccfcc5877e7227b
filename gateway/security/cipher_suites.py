"""`ssl.cipher.suites`: which ciphers TLS may use, by the names of Java, which are IANA's.

OpenSSL has names of its own for those of TLS 1.2. Those of TLS 1.3 cannot be chosen one by one from
Python: all of them are served, or none. Where a list has none of a version, that version is not
spoken, as by Java. Served are those of ECDHE that OpenSSL takes for sound.
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
"""Stands in Java's lists and is no cipher."""

_SUITE = re.compile(r"TLS_ECDHE_(RSA|ECDSA)_WITH_AES_(128|256)_(\w+)")
_CHACHA = re.compile(r"TLS_ECDHE_(RSA|ECDSA)_WITH_CHACHA20_POLY1305_SHA256")


def restrict(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Let a context speak these alone, where there are any.

    Raises:
        UserError: one is not served, or some of TLS 1.3 without the others, or nothing is left of
            the versions that may be spoken.
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
    """OpenSSL's name of a suite of TLS 1.2; None where it is none of those."""
    found = _CHACHA.fullmatch(name)
    if found:
        return f"ECDHE-{found[1]}-CHACHA20-POLY1305"
    found = _SUITE.fullmatch(name)
    if not found:
        return None
    digest = found[3].removeprefix("CBC_").replace("_", "-")
    return f"ECDHE-{found[1]}-AES{found[2]}-{digest}"
