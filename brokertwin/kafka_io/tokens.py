"""Tokens for SASL/OAUTHBEARER: unsecured ones, from a file, a token endpoint, or AWS.

| properties | token |
|---|---|
| `unsecuredLoginStringClaim_sub` in `sasl.jaas.config` | without a signature, for development |
| `sasl.oauthbearer.token.endpoint.url`: `file:…` | the content of the file |
| `sasl.oauthbearer.token.endpoint.url`: `https:…`; `clientId`, `clientSecret`, `scope` in \
`sasl.jaas.config` | client credentials grant |
| `sasl.mechanism`: `AWS_MSK_IAM` | signed with the AWS credentials of the environment |

Amazon MSK takes its tokens by OAUTHBEARER. The region is that of the address, or `AWS_REGION`.

Source: KIP-255, KIP-768; `OAuthBearerUnsecuredLoginCallbackHandler`, `HttpAccessTokenRetriever`.
"""

import base64
import binascii
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode, urlsplit

from brokertwin.errors import UserError

TIMEOUT_S = 10.0
LIFETIME_S = 3600
BYTES_MAX = 1 << 20
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
SUBJECT = "unsecuredLoginStringClaim_sub"
OAUTHBEARER, AWS_MSK_IAM = "OAUTHBEARER", "AWS_MSK_IAM"
SIGNER = "aws-msk-iam-sasl-signer-python"
UNKNOWN_LIFETIME_S = 300
"""Time after which a token without `exp` is fetched again."""

_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def source_of(properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    """Return a function that returns a token. Raises UserError.

    Args:
        properties: Java client properties.
        options: those in `sasl.jaas.config`.
    """
    if mechanism_of(properties) == AWS_MSK_IAM:
        return _signer(properties.get("bootstrap.servers", ""))
    if SUBJECT in options:
        return lambda: unsecured(options[SUBJECT])
    url = properties.get(ENDPOINT, "")
    kind = urlsplit(url).scheme
    if kind == "file" or (kind in ("http", "https") and options.get("clientId")):
        return lambda: _fetched(url, options)
    raise UserError(
        f"SASL/OAUTHBEARER needs {ENDPOINT} with clientId and clientSecret in sasl.jaas.config,"
        f" or {SUBJECT} in it.",
        "Set them in the file of --kafka-config.",
    )


def mechanism_of(properties: Mapping[str, str]) -> str:
    """Return `sasl.mechanism`; Kafka's default is GSSAPI."""
    return properties.get("sasl.mechanism", "GSSAPI").upper()


def expires_at(token: str) -> float:
    """Return the time at which a token ends, in seconds since 1970."""
    payload = token.partition(".")[2].partition(".")[0]
    try:
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return float(json.loads(decoded)["exp"])
    except (binascii.Error, ValueError, KeyError, TypeError):
        return time.time() + UNKNOWN_LIFETIME_S


def _signer(bootstrap: str) -> Callable[[], str]:
    """Return a function that signs a token for Amazon MSK. Raises UserError."""
    match = _MSK_HOST.search(bootstrap)
    region = match[1] if match else os.environ.get("AWS_REGION", "")
    if not region:
        raise UserError(
            f"The address {bootstrap} names no AWS region.", "Set the environment's AWS_REGION."
        )
    try:
        from aws_msk_iam_sasl_signer import (  # type: ignore[import-not-found,unused-ignore]
            MSKAuthTokenProvider,
        )
    except ImportError:
        raise UserError(
            f"sasl.mechanism {AWS_MSK_IAM} needs the package {SIGNER}.",
            f"Install it with: pip install {SIGNER}",
        ) from None

    def signed() -> str:
        try:
            return str(MSKAuthTokenProvider.generate_auth_token(region)[0])
        except Exception as error:  # noqa: BLE001 (its errors have no common class)
            raise UserError(
                f"Cannot sign a token for Amazon MSK: {error}.",
                "Check the AWS credentials of the environment.",
            ) from None

    return signed


def unsecured(subject: str) -> str:
    """Return a JWS without a signature."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": subject, "iat": now, "exp": now + LIFETIME_S}
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join([*encoded, b""]).decode()


def _fetched(url: str, options: Mapping[str, str]) -> str:
    request = urllib.request.Request(url)
    if not url.startswith("file:"):
        scope = {"scope": options["scope"]} if options.get("scope") else {}
        request.data = urlencode({"grant_type": "client_credentials", **scope}).encode()
        names = (quote(options.get(name, ""), safe="") for name in ("clientId", "clientSecret"))
        basic = base64.b64encode(":".join(names).encode()).decode()
        request.add_header("Authorization", f"Basic {basic}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            text = response.read(BYTES_MAX).decode()
        return text.strip() if url.startswith("file:") else str(json.loads(text)["access_token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"Cannot get a token from {url}: {error}.",
            f"Check {ENDPOINT}, and clientId and clientSecret in sasl.jaas.config.",
        ) from None
