"""Who may talk to the bot: nobody, unless the configuration says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from angelia.gateway.access import Access
from angelia.gateway.config import load
from angelia.model.errors import ConfigError
from angelia.model.ids import AdapterId


def write(home: Path, text: str) -> Path:
    (home / "config.yaml").write_text(text)
    return home


def webhook(extra: str) -> str:
    return (
        "profiles:\n"
        "  default:\n"
        "    agent: {kind: echo}\n"
        "    platforms:\n"
        "      webhook:\n"
        "        secret: a-secret-of-some-length\n"
        "        deliver_url: http://127.0.0.1:9000/\n"
        f"        {extra}\n"
    )


def test_allow_is_empty_by_default_and_means_nobody(tmp_path: Path) -> None:
    config = load(write(tmp_path, webhook("allow:")), {})
    access = Access(config)
    assert not access.allows(AdapterId("default", "webhook"), "alice")
    assert not access.allows(AdapterId("default", "webhook"), "*")
    assert any("nobody" in warning for warning in config.warnings)


def test_access_by_name_everybody_and_the_web_page(tmp_path: Path) -> None:
    config = load(write(tmp_path, webhook("allow: [alice, 0042]") + "      web:\n"), {})
    access = Access(config)
    hook = AdapterId("default", "webhook")
    assert access.allows(hook, "alice")
    assert access.allows(hook, "0042")
    assert not access.allows(hook, "42")
    assert not access.allows(hook, "Alice")
    assert not access.allows(hook, "")
    assert access.allows(AdapterId("default", "web"), "whoever")
    assert not access.allows(AdapterId("other", "web"), "whoever")
    everybody = Access(load(write(tmp_path, webhook('allow: ["*"]')), {}))
    assert everybody.allows(hook, "mallory")


def test_web_has_no_allow(tmp_path: Path) -> None:
    text = "profiles:\n  a:\n    agent: {kind: echo}\n    platforms:\n      web: {allow: [alice]}\n"
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text), {})
    assert str(caught.value).startswith("config.yaml:5: profiles.a.platforms.web.allow: is no known key here")


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ("allow: alice", "webhook.allow: must be a list"),
        ("allow: [alice, [bob]]", "webhook.allow.1: must be a user id"),
        ("allow: [alice, ~]", "webhook.allow.1: must be a user id"),
        ("allow: {alice: yes}", "webhook.allow: must be a list"),
    ],
)
def test_a_malformed_allow(tmp_path: Path, extra: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, webhook(extra)), {})
    assert str(caught.value).startswith(f"config.yaml:8: profiles.default.platforms.{where}")
