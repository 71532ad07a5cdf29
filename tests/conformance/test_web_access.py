"""The exam of the platform ``web``, first part: settings, headers, and the three walls around the page."""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError
from tests.conformance.web_pages import (  # noqa: F401 - the fixtures are asked for by name
    build,
    connect,
    host,
    http,
    served,
)

from angelia.model.errors import ConfigError
from angelia.platforms.base import FOR_EVER_S
from angelia.platforms.web import WebSettings
from angelia.testing.fake_host import FakeHost, Served

# -- configuration ---------------------------------------------------------------------------


@pytest.mark.parametrize("listen_host", ["0.0.0.0", "::", "", "192.0.2.7", "chat.example"])
def test_beyond_loopback_a_password_is_needed(listen_host: str) -> None:
    with pytest.raises(ConfigError, match="password"):
        build(listen_host=listen_host)
    build("pass", listen_host=listen_host)


@pytest.mark.parametrize("listen_host", ["127.0.0.1", "::1", "localhost", "127.8.0.1"])
def test_on_loopback_no_password_is_needed(listen_host: str) -> None:
    build(listen_host=listen_host)


def test_unknown_and_empty_settings_are_refused() -> None:
    with pytest.raises(ValidationError):
        WebSettings.model_validate({"colour": "red"})
    with pytest.raises(ValidationError):
        WebSettings.model_validate({"password": ""})


def test_capabilities_are_those_of_a_platform_with_keys_for_ever() -> None:
    capabilities = build().capabilities
    assert capabilities.key_window_s == FOR_EVER_S
    assert capabilities.replays_inbound
    assert not capabilities.read_back
    assert capabilities.worst_case == "never twice"
    assert [len(text) for text in build().split("a" * 16_001)] == [16_000, 1]


# -- pages and walls -------------------------------------------------------------------------


async def test_the_page_and_its_files_come_with_strict_headers(
    served: Served, http: aiohttp.ClientSession
) -> None:
    for path in ("", "p/default/", "p/default/static/app.js", "p/default/static/nothing.js"):
        async with http.get(served.url + path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-cache"
            assert answer.status == (404 if "nothing" in path else 200)


def test_the_page_makes_no_markup_from_text_and_calls_nobody() -> None:
    sources = {
        entry.name: entry.read_text("utf-8")
        for entry in (files("angelia.platforms.web") / "static").iterdir()
    }
    assert len(sources) > 10
    for name, source in sources.items():
        code = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE).replace("http://www.w3.org/2000/svg", "")
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ):
            assert forbidden not in code, name
        assert re.findall(r"""["'(]https?://[a-z]""", code) == [], name
        assert len(source.splitlines()) <= 400, name
    for page in ("index.html", "login.html"):
        assert re.findall(r"<script(?![^>]*\bsrc=)|\bon[a-z]+=|\bstyle=|<style", sources[page]) == []


async def test_static_files_are_revalidated_by_content(served: Served, http: aiohttp.ClientSession) -> None:
    url = served.url + "p/default/static/style.css"
    async with http.get(url) as first:
        etag = first.headers["ETag"]
        assert first.content_type == "text/css"
    async with http.get(url, headers={"If-None-Match": etag}) as second:
        assert (second.status, await second.read()) == (304, b"")
    async with http.get(url, headers={"If-None-Match": '"older"'}) as third:
        assert third.status == 200


async def test_no_file_outside_the_page_is_served(served: Served, http: aiohttp.ClientSession) -> None:
    for name in ("index.html", "..%2Fadapter.py", "%2e%2e%2fadapter.py", "__init__.py"):
        async with http.get(served.url + "p/default/static/" + name) as answer:
            assert answer.status == 404


async def test_addresses_are_relative_so_a_proxy_may_serve_a_sub_path(
    host: FakeHost, http: aiohttp.ClientSession
) -> None:
    async with Served(build(profile="helper"), host) as served:
        async with http.get(served.url + "p/helper/") as answer:
            assert 'src="./static/app.js"' in await answer.text()
        async with http.get(served.url + "p/helper", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, "helper/")
        async with http.get(served.url) as answer:
            assert answer.status == 404  # "/" is the page of the default profile


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "192.0.2.7"])
async def test_a_foreign_host_is_refused_without_password(
    served: Served, http: aiohttp.ClientSession, name: str
) -> None:
    for path in ("", "p/default/", "p/default/static/app.js", "p/default/socket"):
        headers = {"Host": name, "Origin": f"http://{name}"}
        async with http.get(served.url + path, headers=headers) as answer:
            assert answer.status == 403


@pytest.mark.parametrize("name", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST"])
async def test_a_loopback_host_is_served(served: Served, http: aiohttp.ClientSession, name: str) -> None:
    async with http.get(served.url, headers={"Host": name.format(port=served.port)}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "origin",
    [None, "null", "https://evil.example", "http://127.0.0.1", "http://localhost:{port}", "file://", "x"],
)
async def test_a_foreign_origin_cannot_open_the_socket(
    served: Served, http: aiohttp.ClientSession, origin: str | None
) -> None:
    given = None if origin is None else origin.format(port=served.port)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await http.ws_connect(served.url + "p/default/socket", origin=given)
    assert refusal.value.status == 403


async def test_behind_a_tls_proxy_the_scheme_of_the_origin_may_differ(
    served: Served, http: aiohttp.ClientSession
) -> None:
    socket = await http.ws_connect(served.url + "p/default/socket", origin=f"https://{served.address}")
    await socket.close()


async def test_a_plain_get_of_the_socket_is_told_so(served: Served, http: aiohttp.ClientSession) -> None:
    headers = {"Origin": f"http://{served.address}"}
    async with http.get(served.url + "p/default/socket", headers=headers) as answer:
        assert answer.status == 426


# -- password --------------------------------------------------------------------------------


@pytest.fixture
async def locked(host: FakeHost) -> AsyncIterator[Served]:
    async with Served(build("open sesame", listen_host="0.0.0.0"), host) as served:
        yield served


async def log_in(http: aiohttp.ClientSession, served: Served, password: str, **headers: str) -> Any:
    headers = {"Origin": f"http://{served.address}", **headers}
    data = {"password": password}
    return await http.post(served.url + "p/default/login", data=data, headers=headers, allow_redirects=False)


async def test_without_the_cookie_there_is_only_the_door(locked: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(locked.url) as answer:
        assert answer.status == 401
        assert "app.js" not in await answer.text()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await connect(http, locked)
    assert refusal.value.status == 401


async def test_the_password_opens_page_and_socket(
    locked: Served, host: FakeHost, http: aiohttp.ClientSession
) -> None:
    answer = await log_in(http, locked, "open sesame")
    assert (answer.status, answer.headers["Location"]) == (303, "./")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie
    async with http.get(locked.url) as page:
        assert page.status == 200
    client = await connect(http, locked)
    await client.say("message", chat="main", id="m1", text="hi")
    await client.hear("accepted")
    assert [inbound.text for inbound in host.received] == ["hi"]


async def test_behind_tls_the_cookie_is_secure(locked: Served, http: aiohttp.ClientSession) -> None:
    answer = await log_in(http, locked, "open sesame", **{"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.headers["Set-Cookie"]


async def test_a_wrong_password_opens_nothing_and_ten_close_the_door(
    locked: Served, http: aiohttp.ClientSession
) -> None:
    for _ in range(10):
        answer = await log_in(http, locked, "guess")
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers
    answer = await log_in(http, locked, "open sesame")
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "60"


async def test_a_foreign_form_cannot_log_in(locked: Served, http: aiohttp.ClientSession) -> None:
    answer = await log_in(http, locked, "open sesame", Origin="https://evil.example")
    assert answer.status == 403


async def test_with_a_password_any_host_name_serves_but_the_origin_must_match(
    locked: Served, http: aiohttp.ClientSession
) -> None:
    answer = await log_in(http, locked, "open sesame", Host="chat.example", Origin="https://chat.example")
    assert answer.status == 303
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await http.ws_connect(
            locked.url + "p/default/socket", origin="https://evil.example", headers={"Host": "chat.example"}
        )
    assert refusal.value.status == 403
