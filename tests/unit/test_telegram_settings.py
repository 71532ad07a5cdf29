"""The section ``telegram``: what is taken, and that nothing wrong is shown."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from angelia.platforms.telegram.settings import TelegramSettings

TOKEN = "123456789:" + "AAhunter2hunter2hunter2hunter2"  # in two: it must not look like one
HOOK = {
    "mode": "webhook",
    "webhook_url": "https://bot.example.org/telegram/default",
    "webhook_secret": "s" * 16,
}


def settings(**changes: object) -> TelegramSettings:
    return TelegramSettings.model_validate({"token": TOKEN, **changes})


def test_defaults_and_repr() -> None:
    usual = settings()
    assert (usual.groups, usual.mode, usual.timeout_s) == ("mention", "polling", 60.0)
    assert usual.base_url == "https://api.telegram.org"
    assert "hunter2" not in repr(usual) + str(usual)
    assert "sss" not in repr(settings(**HOOK))


def test_webhook_mode() -> None:
    assert settings(**HOOK).webhook_secret.get_secret_value() == "s" * 16
    assert settings(base_url="http://127.0.0.1:8081/").base_url == "http://127.0.0.1:8081"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"token": ""}, ("token",)),
        ({"token": "hunter2"}, ("token",)),
        ({"token": "123456789:"}, ("token",)),
        ({"token": f"bot{TOKEN}"}, ("token",)),
        ({"token": f"{TOKEN}\n"}, ("token",)),
        ({"token": f"{TOKEN}/../x"}, ("token",)),
        ({"groups": "hunter2"}, ("groups",)),
        ({"mode": "hunter2"}, ("mode",)),
        ({"mode": "webhook"}, ("webhook_url", "webhook_secret")),
        ({**HOOK, "webhook_url": "http://bot.example.org/hunter2"}, ("webhook_url",)),
        ({**HOOK, "webhook_secret": "hunter2"}, ("webhook_secret",)),
        ({**HOOK, "webhook_secret": "hunter2 hunter2 hunter2"}, ("webhook_secret",)),
        ({"webhook_url": "https://bot.example.org/"}, ("webhook_url",)),
        ({"webhook_secret": "s" * 16}, ("webhook_secret",)),
        ({"base_url": "hunter2"}, ("base_url",)),
        ({"base_url": "ftp://hunter2/"}, ("base_url",)),
        ({"base_url": "https://api.telegram.org/?hunter2"}, ("base_url",)),
        ({"timeout_s": 0}, ("timeout_s",)),
        ({"hunter": "hunter2"}, ("hunter",)),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_without_showing_it(
    changes: dict[str, object], wrong: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**changes)
    assert "hunter2" not in str(caught.value)
    assert {error["loc"][0] for error in caught.value.errors()} == set(wrong)
