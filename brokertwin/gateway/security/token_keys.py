"""Keys of signed OAUTHBEARER tokens: a JWKS (RFC 7517) in a file or at a URL.

`sasl.oauthbearer.jwks.endpoint.url` names it. A changed file is reloaded. A URL is fetched every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon after a token with an unknown key, which is
rejected itself. HTTPS certificates are verified with the trust store in the module's options in
`sasl.jaas.config`, or with the system's authorities.

Sources: `VerificationKeyResolverFactory`, `JwksFileVerificationKeyResolver`, `RefreshingHttpsJwks`,
`JaasOptionsUtils` in Kafka; KIP-768.
"""

import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec
import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import oauthbearer, tls
from brokertwin.gateway.security.oauthbearer import MECHANISM
from brokertwin.gateway.security.secret_files import stamp

ENDPOINT = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
BACKOFF = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
BACKOFF_MAX = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
SETTINGS = frozenset({ENDPOINT, REFRESH, BACKOFF, BACKOFF_MAX})

FETCH_TIMEOUT_S = 20.0
"""Request timeout, as in jose4j."""

MISSING_MAX, MISSING_LENGTH_MAX, MISSING_S = 16, 1_000, 60.0
"""Limits of remembered unknown keys: their number, length, and interval of refreshes in s."""

_log = structlog.get_logger("brokertwin.gateway")

Keys = tuple[Mapping[str, Any], ...]
"""Keys of a JWKS, as JSON objects."""


class KeySource(Protocol):
    def newest(self) -> Keys:
        """Return the current keys."""

    def missing(self, kid: str) -> None:
        """Report that a token names an unknown key."""


def key_source(properties: BrokerProperties) -> KeySource:
    """Create the source that a listener's settings name. Raises UserError."""
    url = properties.text(ENDPOINT, MECHANISM) or ""
    where = urlsplit(url)
    if where.scheme == "file" and where.path:
        return KeyFile(url, Path(unquote(where.path)))
    if where.scheme in ("http", "https") and where.hostname:
        return FetchedKeys(url, properties)
    raise UserError(
        f"Invalid {ENDPOINT}: {url or 'not set'}.",
        f"Pass --set {ENDPOINT}=file:///etc/keys.json or https://…, a JWKS.",
    )


class KeyFile:
    """Keys of a JWKS file, reloaded when it changes.

    Args:
        url: its URL in the settings.

    Raises:
        UserError: the file is missing or no JWKS.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        self._keys = self._read()
        self._stamp = stamp(path)

    def newest(self) -> Keys:
        """Return the current keys; an invalid file keeps the old ones."""
        now = stamp(self._path)
        if now != self._stamp:
            self._stamp = now
            try:
                self._keys = self._read()
            except UserError as error:
                _log.error("cannot reload keys; the old ones stay", reason=error.message)
        return self._keys

    def missing(self, kid: str) -> None:
        """Do nothing: `newest` checks the file for each token."""

    def _read(self) -> Keys:
        try:
            return _keys(self._url, msgspec.json.decode(self._path.read_bytes()))
        except OSError as error:
            raise UserError(
                f"Cannot read {ENDPOINT} {self._url}: {error.strerror or error}."
            ) from None
        except msgspec.DecodeError:
            raise _no_jwks(self._url) from None


class FetchedKeys:
    """Keys of a JWKS at a URL, as last fetched.

    A thread fetches them; it ends with this object.

    Args:
        url: the URL.
        properties: settings of the refresh, and of trusted certificates.
        clock: monotonic seconds.

    Raises:
        UserError: the URL does not respond with a JWKS, or the trust store cannot be read.
    """

    def __init__(
        self, url: str, properties: BrokerProperties, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from jwt import PyJWKClient

        refresh_s, self._backoff_s, self._backoff_max_s = (
            properties.value(name, MECHANISM) / 1000 for name in (REFRESH, BACKOFF, BACKOFF_MAX)
        )
        if refresh_s <= 0:
            raise UserError(f"{REFRESH} must be greater than 0.")
        options = oauthbearer.options(properties.given(oauthbearer.JAAS, MECHANISM))
        trusted: ssl.SSLContext = tls.client_context(options)
        self._url, self._clock = url, clock
        self._client = PyJWKClient(
            url, cache_jwk_set=False, timeout=FETCH_TIMEOUT_S, ssl_context=trusted
        )
        self._keys = self._fetched()
        self._missing: dict[str, float] = {}
        self._wanted = threading.Event()
        weakref.finalize(self, self._wanted.set)
        refreshed = (weakref.ref(self), self._wanted, refresh_s)
        threading.Thread(target=_refreshing, args=refreshed, daemon=True, name="jwks").start()

    def newest(self) -> Keys:
        return self._keys

    def missing(self, kid: str) -> None:
        """Request a refresh soon, at most once a minute for each key."""
        now = self._clock()
        if len(kid) > MISSING_LENGTH_MAX or now < self._missing.get(kid, now):
            return
        self._missing.pop(kid, None)
        self._missing[kid] = now + MISSING_S
        if len(self._missing) > MISSING_MAX:
            del self._missing[next(iter(self._missing))]
        self._wanted.set()

    def refresh(self) -> None:
        """Fetch the keys with retries; after the last failure keep the old ones."""
        ends, pause_s = self._clock() + self._backoff_max_s, self._backoff_s
        while True:
            try:
                self._keys = self._fetched()
            except UserError as error:
                if self._clock() + pause_s > ends:
                    _log.error("cannot reload keys; the old ones stay", reason=error.message)
                    return
                time.sleep(pause_s)
                pause_s *= 2
            else:
                for key in self._keys:
                    self._missing.pop(str(key.get("kid")), None)
                return

    def _fetched(self) -> Keys:
        from jwt import PyJWTError

        try:
            return _keys(self._url, self._client.fetch_data())
        except (PyJWTError, OSError) as error:
            raise UserError(f"{ENDPOINT} {self._url} did not respond: {error}.") from None
        except ValueError:
            raise _no_jwks(self._url) from None


def _refreshing(keys: "weakref.ref[FetchedKeys]", event: threading.Event, refresh_s: float) -> None:
    """Refresh periodically and on request, until the object is deleted."""
    while True:
        event.wait(min(refresh_s, threading.TIMEOUT_MAX))
        event.clear()
        found = keys()
        if found is None:
            return
        found.refresh()
        del found


def _keys(url: str, document: Any) -> Keys:
    try:
        return tuple(msgspec.convert(document["keys"], list[dict[str, Any]]))
    except (msgspec.ValidationError, KeyError, TypeError):
        raise _no_jwks(url) from None


def _no_jwks(url: str) -> UserError:
    return UserError(f"{ENDPOINT} {url} is not a JWKS: an object with a list `keys`.")
