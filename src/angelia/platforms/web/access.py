"""Who may open the page.

Three walls, each for an attack of its own:

* **Host** (no password): only loopback names, or a hostile site could point its own name at
  127.0.0.1 and read the page as its own (DNS rebinding).
* **Origin**: a WebSocket is not held by the same-origin policy, so any website could open ours
  from the visitor's browser. Only our own origin may; a handshake without one is refused, too.
* **Password**: a form, a random session token in a cookie, kept in memory. A restart of the
  gateway asks again. Wrong tries are limited as a whole, not per address: addresses are cheap.

Schemes are not compared: behind a TLS proxy the browser says https where we see http.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict, deque
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import SecretStr

from angelia.model.limits import MINUTE_MS
from angelia.platforms.web.settings import is_loopback
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng

wrong_tries_max = 10  # within a minute, over all addresses: 14,400 guesses a day at most
sessions_max = 1000  # the oldest is signed out first

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def host_name(host: str) -> str:
    """The name in a Host header, without its port and brackets, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def same_origin(origin: str | None, host: str) -> bool:
    """Whether a page of ``origin`` was served by ``host`` (name and port; the scheme may differ)."""
    if origin is None:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in _DEFAULT_PORTS or not parts.netloc:
        return False
    port = _DEFAULT_PORTS[parts.scheme]
    return parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)


class Access:
    """The three walls of one adapter."""

    def __init__(
        self, profile: str, password: SecretStr | None, listen_host: str, clock: Clock, rng: Rng
    ) -> None:
        self._profile = profile
        self._password = None if password is None else _digest(password.get_secret_value())
        self._listen_host = listen_host.lower()
        self._clock = clock
        self._rng = rng
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._wrong: deque[int] = deque(maxlen=wrong_tries_max)

    def host_allowed(self, request: web.Request) -> bool:
        """With a password any name will do: a rebound name has no cookie of ours."""
        if self._password is not None:
            return True
        name = host_name(request.headers.get("Host", ""))
        return bool(name) and (is_loopback(name) or name == self._listen_host)

    def origin_allowed(self, request: web.Request) -> bool:
        """Whether the request was made by a page of ours."""
        return same_origin(request.headers.get("Origin"), request.headers.get("Host", ""))

    def signed_in(self, request: web.Request) -> bool:
        if self._password is None:
            return True
        return request.cookies.get(self._cookie(request), "") in self._sessions

    def may_try(self) -> bool:
        """Whether a password may be tried at all now."""
        if len(self._wrong) < wrong_tries_max:
            return True
        return self._clock.now().steady - self._wrong[0] >= MINUTE_MS

    def try_password(self, given: str) -> bool:
        """Whether ``given`` is the password, in a time that does not depend on it."""
        right = self._password is not None and hmac.compare_digest(_digest(given), self._password)
        if not right:
            self._wrong.append(self._clock.now().steady)
        return right

    def sign_in(self, request: web.Request, response: web.Response) -> None:
        """Put a fresh session into ``response``."""
        token = self._rng.token() + self._rng.token()
        self._sessions[token] = None
        while len(self._sessions) > sessions_max:
            self._sessions.popitem(last=False)
        secure = request.scheme == "https" or request.headers.get("X-Forwarded-Proto", "").lower() == "https"
        response.set_cookie(
            self._cookie(request), token, httponly=True, samesite="Strict", secure=secure, path="/"
        )

    def _cookie(self, request: web.Request) -> str:
        """Cookies know no ports and no profiles, so two gateways on one machine need two names."""
        place = f"{request.headers.get('Host', '')} {self._profile}"
        return "angelia_" + hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:16]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
