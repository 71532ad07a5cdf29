"""Fetching a file that a service names by its address, without becoming its tool.

Who can write to a webhook could otherwise have us ask what only we can reach: a router, a
database, the address at which a cloud tells its secrets. So, unless the operator says that
private addresses are fine:

* A name is looked up once, here. **Every** address it has must be a public one, or nothing is
  fetched; and the connection goes to one of exactly these addresses, so a name that answers
  differently the next time (DNS rebinding) gains nothing. An address that is written as a number,
  in whatever spelling, passes the same gate.
* Public is what the registries of IANA call so. IPv6 addresses that carry an IPv4 address (mapped,
  NAT64) are as public as that one; 6to4 and Teredo, which lead elsewhere, are not.
* Redirects are not followed, proxies of the environment not used, cookies not kept.

One request, with a limit of time and of bytes, counted as they come and not unpacked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

file_bytes_max = 20 * 1024 * 1024
fetch_limit_s = 30.0  # for one file, from the look-up of its name to its last byte
connect_limit_s = 10.0
fetches_at_once_max = 4

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
#: What IANA's registries of special addresses name beyond what every supported Python knows of
#: them; 6to4 and Teredo among it.
_SPECIAL_4 = tuple(
    ipaddress.ip_network(network)
    for network in ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15")
)
_SPECIAL_6 = tuple(ipaddress.ip_network(network) for network in ("2001::/23", "2002::/16", "3fff::/20"))
#: Public by its number, and yet the door to the insides of a cloud (Azure: "IP address
#: 168.63.129.16 overview").
_INSIDE = frozenset((ipaddress.ip_address("168.63.129.16"),))


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that came: its bytes, and the media type its server gave it (``""``: none)."""

    data: bytes
    mime: str


class NotFetchedError(Exception):
    """Why not, in words for the service. ``passing``: it may be otherwise in a while."""

    def __init__(self, reason: str, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


class _NotPublicError(OSError):
    """An address that must not be asked."""


def is_public(text: str) -> bool:
    """Whether ``text``, an IP address, is one that everybody on the internet could ask."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None:
            return (
                address in _GLOBAL_UNICAST
                and address.is_global
                and not any(address in network for network in _SPECIAL_6)
            )
        address = inner
    if address in _INSIDE or any(address in network for network in _SPECIAL_4):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


class _Resolver(AbstractResolver):
    """Looks a name up and lets it pass only if all of its addresses may be asked."""

    def __init__(self, private: bool) -> None:
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        addresses = [(kind, str(where[0])) for kind, _, _, _, where in found]
        if not self._private and not all(is_public(address) for _, address in addresses):
            raise _NotPublicError("an address of this name is not public")
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=numeric)
            for kind, address in addresses
        ]

    async def close(self) -> None:
        """There is nothing to close."""


class Fetcher:
    """``private``: addresses of this machine and of its networks may be asked, too."""

    def __init__(self, private: bool) -> None:
        self._private = private
        self._slots = asyncio.Semaphore(fetches_at_once_max)

    async def fetch(self, address: str) -> Fetched:
        """One GET. Raises ``NotFetchedError``; its text does not repeat the address."""
        url = _checked(address)
        try:
            async with self._slots, asyncio.timeout(fetch_limit_s):
                return await self._get(url)
        except TimeoutError:
            raise NotFetchedError(f"the file did not come within {fetch_limit_s:g} s", passing=True) from None
        except aiohttp.ClientError as error:
            if isinstance(_cause(error), _NotPublicError):
                raise NotFetchedError("files are not fetched from this address") from None
            if isinstance(error, aiohttp.InvalidURL):
                raise NotFetchedError("this is no address that can be asked") from None
            raise NotFetchedError("the file's server cannot be reached", passing=True) from None
        except ValueError:  # a name that cannot be one
            raise NotFetchedError("this is no address that can be asked") from None

    async def _get(self, url: URL) -> Fetched:
        connector = aiohttp.TCPConnector(
            resolver=_Resolver(self._private),
            use_dns_cache=False,
            force_close=True,
            socket_factory=self._socket,
        )
        wait = aiohttp.ClientTimeout(total=None, connect=connect_limit_s)
        headers = {"Accept-Encoding": "identity", "User-Agent": "angelia"}
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=wait,
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return await _read(response)

    def _socket(self, found: tuple[Any, ...]) -> socket.socket:
        """The last gate, passed by every connection: also by one to an address written as a number,
        for which no name is looked up."""
        family, kind, protocol, _, where = found
        if not self._private and not is_public(str(where[0])):
            raise _NotPublicError("this address is not public")
        return socket.socket(family, kind, protocol)


async def _read(response: aiohttp.ClientResponse) -> Fetched:
    if response.status != 200:
        passing = response.status >= 500 or response.status in (408, 429)
        raise NotFetchedError(f"the file's server answers with status {response.status}", passing)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotFetchedError("the file comes packed, which was not asked for")
    too_large = NotFetchedError(f"the file has more than {file_bytes_max} bytes")
    if (response.content_length or 0) > file_bytes_max:
        raise too_large
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > file_bytes_max:
            raise too_large
    return Fetched(bytes(data), response.headers.get("Content-Type", ""))


def _checked(address: str) -> URL:
    """What may be asked at all. Raises ``NotFetchedError``."""
    try:
        url = URL(address)
        usable = url.scheme in ("http", "https") and bool(url.host) and url.port != 0
    except ValueError:
        usable = False
    if not usable or address != address.strip() or not address.isprintable():
        raise NotFetchedError("this is no http:// or https:// address")
    if url.user is not None or url.password is not None:
        raise NotFetchedError("an address with a user in it is not asked")
    return url


def _cause(error: BaseException) -> BaseException | None:
    """What a client error stands for: the refusal of an address, where it was that."""
    one: BaseException | None = error
    while one is not None and not isinstance(one, _NotPublicError):
        inner = getattr(one, "os_error", None)
        one = inner if isinstance(inner, BaseException) and inner is not one else one.__cause__
    return one
