"""What may be configured about the chat page: only who may open it."""

from __future__ import annotations

import ipaddress

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from angelia.model.errors import ConfigError


class WebSettings(BaseModel):
    """``password``: asked for by the page. Needed as soon as the gateway listens beyond loopback."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    password: SecretStr | None = Field(default=None, min_length=1)


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address, no port, no brackets) is this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(settings: WebSettings, listen_host: str) -> None:
    """Raises ``ConfigError`` where a stranger could open the page: it is as good as a key to the bot."""
    if settings.password is None and not is_loopback(listen_host):
        where = listen_host or "every address"
        raise ConfigError(
            f"the gateway listens on {where}, which other machines can reach, and the web page has no "
            "password: set platforms.web.password, or listen on 127.0.0.1"
        )
