"""What the operator says about one Telegram bot."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator
from yarl import URL

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{10,200}")
#: What ``setWebhook`` takes as ``secret_token`` (Bot API documentation).
_WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")
PUBLIC_API = "https://api.telegram.org"


class TelegramSettings(BaseModel):
    """One bot of Telegram, made with @BotFather; `docs/guides/telegram.md` begins there. Errors
    never show a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    #: The bot's token, as @BotFather gave it.
    token: SecretStr
    #: In groups and channels the bot takes what mentions it, replies to it or commands it
    #: (`mention`), or everything that Telegram lets it see (`all`).
    groups: Literal["mention", "all"] = "mention"
    #: The Bot API server; name your own here.
    base_url: str = Field(default=PUBLIC_API, repr=False)
    #: Ask for updates (`polling`), or be called by Telegram (`webhook`).
    mode: Literal["polling", "webhook"] = "polling"
    #: With `mode: webhook`: the public `https://` address that leads to `/telegram/PROFILE` of the gateway.
    webhook_url: str = Field(default="", repr=False, validate_default=True)
    #: With `mode: webhook`: 16 to 256 of `A-Z a-z 0-9 _ -`; Telegram shows it with every call.
    webhook_secret: SecretStr = Field(default=SecretStr(""), validate_default=True)
    #: Seconds from the first byte of a request to the answer's status line. Telegram sleeps on
    #: short floods before it answers, so this is long.
    timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)

    @field_validator("token")
    @classmethod
    def _whole_token(cls, token: SecretStr) -> SecretStr:
        if _TOKEN.fullmatch(token.get_secret_value()) is None:
            raise ValueError("is no bot token; @BotFather gives one such as 123456789:AA… (NUMBER:LETTERS)")
        return token

    @field_validator("webhook_url")
    @classmethod
    def _public_address(cls, address: str, info: ValidationInfo) -> str:
        if info.data.get("mode") != "webhook":
            if address:
                raise ValueError("says nothing unless mode is webhook")
            return address
        own_server = info.data.get("base_url", PUBLIC_API) != PUBLIC_API  # it may call without TLS
        if not _usable(address) or (URL(address).scheme != "https" and not own_server):
            raise ValueError("must be the public https:// address that Telegram shall call")
        return address

    @field_validator("webhook_secret")
    @classmethod
    def _usable_secret(cls, secret: SecretStr, info: ValidationInfo) -> SecretStr:
        text = secret.get_secret_value()
        if info.data.get("mode") != "webhook":
            if text:
                raise ValueError("says nothing unless mode is webhook")
        elif _WEBHOOK_SECRET.fullmatch(text) is None:
            raise ValueError("must be 16 to 256 of A-Z a-z 0-9 _ -")
        return secret

    @field_validator("base_url")
    @classmethod
    def _usable_base(cls, address: str) -> str:
        if not _usable(address) or URL(address).query_string or URL(address).fragment:
            raise ValueError("must be an http:// or https:// address with a host, without ? and #")
        return address.rstrip("/")


def _usable(address: str) -> bool:
    try:
        url = URL(address)
        return (
            url.scheme in ("http", "https")
            and bool(url.host)
            and url.port != 0
            and address == address.strip()
            and address.isprintable()
        )
    except ValueError:
        return False
