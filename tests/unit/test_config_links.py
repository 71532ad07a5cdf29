"""``gateway.public_url``: what the links to files begin with, and where they would lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.test_config import PLAIN, refusal, webhook, write

from angelia.gateway.config import load


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://bot.example.org", "https://bot.example.org/"),
        ("http://192.0.2.7:8787/bots//", "http://192.0.2.7:8787/bots/"),
        ("http://[2001:db8::1]:80/", "http://[2001:db8::1]:80/"),
    ],
)
def test_a_public_url_ends_with_a_slash(tmp_path: Path, text: str, address: str) -> None:
    config = PLAIN.replace("gateway: {", f'gateway: {{public_url: "{text}", ')
    write(tmp_path, config, "HOOK_SECRET=abc\n")
    assert load(tmp_path, {}).public_url == address


@pytest.mark.parametrize(
    "text",
    [
        "bot.example.org",
        "ftp://x/",
        "https://",
        "https://x/?a=b",
        "https://x/#f",
        "https://u:p@x/",
        "http://x y/",
        "http://x:99999/",
        "http://[::1/",
    ],
)
def test_a_public_url_that_links_cannot_begin_with(tmp_path: Path, text: str) -> None:
    message = refusal(
        tmp_path, PLAIN.replace("gateway: {", f'gateway: {{public_url: "{text}", '), "HOOK_SECRET=abc\n"
    )
    assert message.startswith("config.yaml:1: gateway.public_url: must ")
    assert text not in message


@pytest.mark.parametrize(
    ("gateway", "warned"),
    [
        ('{listen: "0.0.0.0:1"}', True),
        ('{listen: "[::]:1"}', True),
        ('{listen: "0.0.0.0:1", public_url: "http://x/"}', False),
        ('{listen: "192.0.2.7:1"}', False),
        ("{}", False),
    ],
)
def test_links_that_would_lead_nowhere_are_warned_of(tmp_path: Path, gateway: str, warned: bool) -> None:
    text = f"gateway: {gateway}\n{webhook('idempotent: true')}"
    found = [one for one in load(write(tmp_path, text), {}).warnings if "public_url" in one]
    assert len(found) == warned
    assert all(one.startswith("config.yaml:1: gateway.listen: is every address") for one in found)
