"""The keys of OAUTHBEARER's signed tokens: a JWKS (RFC 7517) in a file or at an address.

`sasl.oauthbearer.jwks.endpoint.url` says where. A file is read again when it has changed. An
address is asked every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon after a token has come
whose key is not among those that are there; that token is refused, a later one is not. The
certificates of https are held against the trust store of the module's options in
`sasl.jaas.config`, or against the system's authorities.

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

ENDPOINT = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
BACKOFF = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
BACKOFF_MAX = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
SETTINGS = frozenset({ENDPOINT, REFRESH, BACKOFF, BACKOFF_MAX})

ANSWER_MAX_S = 20.0
"""How long an address may take, as in jose4j."""

MISSING_MAX, MISSING_LENGTH_MAX, MISSING_S = 16, 1_000, 60.0
"""So many names of keys that are not there are known, so long ones, and asked for so seldom."""

_log = structlog.get_logger("brokertwin.gateway")

Keys = tuple[Mapping[str, Any], ...]
"""Those of a JWKS, as they stand there."""


class KeySource(Protocol):
    """Where keys come from."""

    def newest(self) -> Keys:
        """The keys that there are."""

    def missing(self, kid: str) -> None:
        """A token names a key that is not there."""


def key_source(properties: BrokerProperties) -> KeySource:
    """That of a listener's settings. Raises UserError where there are no keys."""
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
    """The keys of a JWKS in a file, as it is now.

    Args:
        url: its name in settings.
        path: where it lies.

    Raises:
        UserError: it is not there, or no JWKS.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        self._keys = self._read()
        self._changed_ns = self._modified_ns()

    def newest(self) -> Keys:
        """The keys; where the file has become none of them those that it had."""
        changed_ns = self._modified_ns()
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            try:
                self._keys = self._read()
            except UserError as error:
                _log.error("cannot reload keys; the old ones stay", reason=error.message)
        return self._keys

    def missing(self, kid: str) -> None:
        """A file is looked at with each token."""

    def _read(self) -> Keys:
        try:
            return _keys(self._url, msgspec.json.decode(self._path.read_bytes()))
        except OSError as error:
            raise UserError(
                f"Cannot read {ENDPOINT} {self._url}: {error.strerror or error}."
            ) from None
        except msgspec.DecodeError:
            raise _no_jwks(self._url) from None

    def _modified_ns(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None


class FetchedKeys:
    """The keys of a JWKS at an address, as they were when it was last asked.

    A thread asks, which ends with this object.

    Args:
        url: the address.
        properties: how often it is asked, and whose certificates it may have.
        clock: seconds that only grow.

    Raises:
        UserError: it does not answer, or with no JWKS; a trust store that cannot be read.
    """

    def __init__(
        self,
        url: str,
        properties: BrokerProperties,
        clock: Callable[[], float] = time.monotonic,
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
        self._asked = PyJWKClient(
            url, cache_jwk_set=False, timeout=ANSWER_MAX_S, ssl_context=trusted
        )
        self._keys = self._fetched()
        self._missing: dict[str, float] = {}
        self._wanted = threading.Event()
        weakref.finalize(self, self._wanted.set)
        refreshed = (weakref.ref(self), self._wanted, refresh_s)
        threading.Thread(target=_refreshing, args=refreshed, daemon=True, name="jwks").start()

    def newest(self) -> Keys:
        """The keys."""
        return self._keys

    def missing(self, kid: str) -> None:
        """Has the address asked soon; for one name of a key once a minute at most."""
        now = self._clock()
        if len(kid) > MISSING_LENGTH_MAX or now < self._missing.get(kid, now):
            return
        self._missing.pop(kid, None)
        self._missing[kid] = now + MISSING_S
        if len(self._missing) > MISSING_MAX:
            del self._missing[next(iter(self._missing))]
        self._wanted.set()

    def refresh(self) -> None:
        """Asks the address, some times until it answers; then the keys stay as they were."""
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
            return _keys(self._url, self._asked.fetch_data())
        except (PyJWTError, OSError) as error:
            raise UserError(f"{ENDPOINT} {self._url} did not respond: {error}.") from None
        except ValueError:
            raise _no_jwks(self._url) from None


def _refreshing(
    keys: "weakref.ref[FetchedKeys]", wanted: threading.Event, refresh_s: float
) -> None:
    """Has an address asked from time to time, and when that is wanted, as long as there is one."""
    while True:
        wanted.wait(min(refresh_s, threading.TIMEOUT_MAX))
        wanted.clear()
        found = keys()
        if found is None:
            return
        found.refresh()
        del found


def _keys(url: str, document: Any) -> Keys:
    """The keys of a JWKS."""
    try:
        return tuple(msgspec.convert(document["keys"], list[dict[str, Any]]))
    except (msgspec.ValidationError, KeyError, TypeError):
        raise _no_jwks(url) from None


def _no_jwks(url: str) -> UserError:
    return UserError(f"{ENDPOINT} {url} is not a JWKS: an object with a list `keys`.")
