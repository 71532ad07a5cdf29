"""The calls about the bot itself and about chats: ``getMe``, ``getChat``, the commands menu."""

from __future__ import annotations

import json
import re
from typing import Any

from angelia.testing.telegram_server.answers import Json, bad_request
from angelia.testing.telegram_server.parameters import Call
from angelia.testing.telegram_server.world import World

commands_max = 100
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")


class Account:
    """``commands``: the menus that were set, by scope and language as they were given."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.commands: dict[str, list[Json]] = {}

    def get_me(self, call: Call) -> Json:
        return {
            **self._world.bot.to_json(),
            "can_join_groups": True,
            "can_read_all_group_messages": not self._world.privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }

    def get_chat(self, call: Call) -> Json:
        chat = self._world.found(call.values.get("chat_id"))
        if chat.kind != "private":
            self._world.check_standing(chat)
        limits: Json = {"accent_color_id": 1, "max_reaction_count": 11, "accepted_gift_types": _NO_GIFTS}
        if chat.kind in ("group", "supergroup"):
            limits["permissions"] = {"can_send_messages": chat.may_write}
        if chat.linked_group:
            limits["linked_chat_id"] = chat.linked_group
        return {**chat.to_json(), **limits}

    def set_my_commands(self, call: Call) -> bool:
        listed = call.parsed("commands", "commands")
        if not isinstance(listed, list):
            raise bad_request("can't parse commands: Expected an Array of BotCommand")
        if len(listed) > commands_max:
            raise bad_request("BOT_COMMANDS_TOO_MUCH")
        self.commands[_scope(call)] = [_command(entry) for entry in listed]
        return True

    def get_my_commands(self, call: Call) -> list[Json]:
        return self.commands.get(_scope(call), [])

    def delete_my_commands(self, call: Call) -> bool:
        self.commands.pop(_scope(call), None)
        return True


_NO_GIFTS = dict.fromkeys(
    (
        "unlimited_gifts",
        "limited_gifts",
        "unique_gifts",
        "premium_subscription",
        "gifts_from_channels",
    ),
    False,
)


def _scope(call: Call) -> str:
    scope = call.parsed("scope", "BotCommandScope") or {"type": "default"}
    return json.dumps([scope, call.text("language_code")], sort_keys=True)


def _command(entry: Any) -> Json:
    if not isinstance(entry, dict):
        raise bad_request("can't parse BotCommand: expected an Object")
    command, description = str(entry.get("command", "")), str(entry.get("description", ""))
    if _COMMAND.fullmatch(command.removeprefix("/").lower()) is None:
        raise bad_request("BOT_COMMAND_INVALID")
    if not 1 <= len(description) <= 256:
        raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    return {"command": command.removeprefix("/").lower(), "description": description}
