"""Which requests are let in, and what every answer says to the browser.

A page of another site must not be able to change a job, nor to read what it does: the browser would send such a
request from the user's own machine. So the name in `Host` must be one that means this server (a site that lets its
name point to 127.0.0.1 is refused), `Origin` must be the page itself, and changes carry a token in a header that a
form cannot set and that no other site can read.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "X-Muntin-Token"
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
LONGEST_BODY = 1 << 18
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SAME_SITE = ("same-origin", "none")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """Who may do what: the host that is served, the token for changes, None where nobody may change anything."""

    host: str = "127.0.0.1"
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    def knows(self, host: str) -> bool:
        """Whether a `Host` means this server. One that is open to the network may be called by any address of it:
        only names can be made to point elsewhere."""
        name = _name(host)
        if name in LOOPBACK or name == self.host:
            return True
        if self.is_loopback:
            return False
        return name in (socket.gethostname().lower(), socket.getfqdn().lower()) or _is_address(name)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str, str] | None:
        """Why a request is refused: status, message and hint; None where it is let in."""
        host = headers.get("host", "")
        if not self.knows(host):
            return 421, f"this server is not {host or 'nameless'}", "open the address that was printed at the start"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, f"a page of {origin} may not use this server", "open the page of the server itself"
        if headers.get("sec-fetch-site", "none") not in SAME_SITE:
            return 403, "a page of another site may not use this server", "open the page of the server itself"
        return self._changing(headers) if method in CHANGING else None

    def _changing(self, headers: Headers) -> tuple[int, str, str] | None:
        if self.token is None:
            return 403, "this page is read-only", "start it without --read-only to change queries from here"
        if not hmac.compare_digest(headers.get(TOKEN.lower(), "").encode(), self.token.encode()):
            return 401, "changes need the token", "open the address with #token= that was printed at the start"
        if headers.get("content-type", "application/json").partition(";")[0] != "application/json":
            return 415, "this is not JSON", "send Content-Type: application/json"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LONGEST_BODY or "transfer-encoding" in headers:
            return 413, f"a request has at most {LONGEST_BODY:,} bytes, and says how many", "send a shorter one"
        return None


class Guard:
    """Asks `Access` about every request, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, access: Access):
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._access.refusal(scope["method"], Headers(scope=scope))
        if refused is not None:
            status, error, hint = refused
            await JSONResponse({"error": error, "hint": hint}, status)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _name(host: str) -> str:
    """The name in `name:port` or `[::1]:port`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
