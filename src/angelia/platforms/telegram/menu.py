"""The bot's menu of commands: set when it differs, and never in anybody's way.

Registering commands at every start got bots locked out (case C11). So the present menu is
read first, and a limit on these calls is waited for here and holds nothing else.
"""

from __future__ import annotations

import structlog

from angelia.model.ids import AdapterId
from angelia.platforms.telegram.api import BotApi, Reply
from angelia.platforms.telegram.outcomes import wait_of
from angelia.seams.clock import Clock

_MENU = [
    {"command": "new", "description": "Begin a new conversation"},
    {"command": "stop", "description": "Stop what I am doing"},
    {"command": "why", "description": "Explain the last answer's delivery"},
    {"command": "help", "description": "Say what I can do"},
]
_TRIES = 3

_log = structlog.get_logger("angelia")


async def keep_menu(adapter_id: AdapterId, api: BotApi, clock: Clock) -> None:
    """Set the menu if it differs. Gives up quietly: the next start tries again."""
    for _ in range(_TRIES):
        reply = await api.call("getMyCommands", {})
        if isinstance(reply, Reply) and reply.ok:
            if reply.result == _MENU:
                return
            reply = await api.call("setMyCommands", {"commands": _MENU})
            if isinstance(reply, Reply) and reply.ok:
                _log.info("the menu of commands is set", action="telegram.menu_set", adapter=str(adapter_id))
                return
        limited = isinstance(reply, Reply) and reply.code == 429
        said = reply.description if isinstance(reply, Reply) else reply.detail
        _log.info(
            "the menu of commands is not set yet",
            action="telegram.menu_not_set",
            adapter=str(adapter_id),
            reason=said,
        )
        if not limited or not isinstance(reply, Reply):
            return
        await clock.sleep(wait_of(reply))
