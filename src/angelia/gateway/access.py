"""Who may talk to the bot. Nobody, unless the configuration names them."""

from __future__ import annotations

from angelia.gateway.config import Config
from angelia.model.ids import AdapterId


class Access:
    """Answers for every inbound whether its user is listened to. Ids are compared as text."""

    def __init__(self, config: Config) -> None:
        self._platforms = {
            AdapterId(profile.name, platform.name): platform
            for profile in config.profiles.values()
            for platform in profile.platforms.values()
        }

    def allows(self, adapter_id: AdapterId, user: str) -> bool:
        """Whether ``user`` may talk to this profile on this platform."""
        platform = self._platforms.get(adapter_id)
        if platform is None:
            return False
        return not platform.guarded or "*" in platform.allow or user in platform.allow
