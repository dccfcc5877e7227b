"""Tokens for SASL/OAUTHBEARER: unsecured ones, from a file, or from an OAuth 2.0 token endpoint.

| properties | token |
|---|---|
| `unsecuredLoginStringClaim_sub` in `sasl.jaas.config` | without a signature, for development |
| `sasl.oauthbearer.token.endpoint.url`: `file:…` | the content of the file |
| `sasl.oauthbearer.token.endpoint.url`: `https:…`; `clientId`, `clientSecret`, `scope` in \
`sasl.jaas.config` | client credentials grant |

Source: KIP-255, KIP-768; `OAuthBearerUnsecuredLoginCallbackHandler`, `HttpAccessTokenRetriever`.
"""

import base64
import json
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


def source_of(properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    """Return a function that returns a token. Raises UserError.

    Args:
        properties: Java client properties.
        options: those in `sasl.jaas.config`.
    """
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
