"""The calls that put something into a chat: ``sendMessage``, its relatives, and edits.

The order of the checks is the real server's: what can be told from the call alone (markup, an
empty text), then the chat, the topic, the answered message, the length. Nothing is accepted
before all of them have passed; what is accepted is in the truth before the answer is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from angelia.testing.telegram_server.acts import Acts
from angelia.testing.telegram_server.answers import Json, bad_request, named
from angelia.testing.telegram_server.entities import blank, cleaned, found_in, given, units
from angelia.testing.telegram_server.floods import Floods
from angelia.testing.telegram_server.markup import parse
from angelia.testing.telegram_server.parameters import Call
from angelia.testing.telegram_server.places import Chat, general_thread
from angelia.testing.telegram_server.truth import Accepted, Truth

text_max = 4096
caption_max = 1024
text_bytes_max = 32 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """Where a call goes, after all checks of the place."""

    chat: Chat
    thread: int | None
    reply_to: int | None
    quote: str


class Sending:
    """``counted_in``: the unit of the length limits. The documentation says characters, td counts
    code points for bots, people's clients UTF-16 units; the strictest is the rule here, so that
    what passes here passes anywhere. ``reply_gone``: the name of the refusal for an answered
    message that is gone; its words have changed over the years."""

    def __init__(self, world: Acts, truth: Truth, floods: Floods) -> None:
        self.world = world
        self.truth = truth
        self.floods = floods
        self.counted_in: Literal["utf16_units", "code_points"] = "utf16_units"
        self.reply_gone = "reply_not_found"

    # -- the parts of every send -------------------------------------------------------------

    def length(self, text: str) -> int:
        return units(text) if self.counted_in == "utf16_units" else len(text)

    def formatted(self, call: Call, field: str, entities_field: str) -> tuple[str, list[Json]]:
        """The text of ``field`` after its markup or with its entities. Raises the refusals."""
        raw = call.text(field)
        try:
            size = len(raw.encode())
        except UnicodeEncodeError:  # half a surrogate pair
            raise bad_request("strings must be encoded in UTF-8") from None
        if size > text_bytes_max:
            raise bad_request("text is too long")
        mode = call.text("parse_mode")
        if mode and mode.lower() != "none":
            return cleaned(*parse(raw, mode))
        listed = call.parsed(entities_field, "entities")
        return cleaned(raw, [] if listed is None else given(raw, listed))

    def caption(self, call: Call) -> tuple[str, list[Json]]:
        """The caption of a medium, "" for none. Its length is checked by ``check_caption``."""
        return self.formatted(call, "caption", "caption_entities") if call.text("caption") else ("", [])

    def check_caption(self, caption: str) -> None:
        if self.length(caption) > caption_max:
            raise named("caption_too_long")

    def target(self, call: Call) -> Target:
        """Where the call goes. Raises the refusals of chat, topic and answered message."""
        chat = self.world.found(call.values.get("chat_id"))
        self.world.check_right_to_write(chat)
        thread = call.number_of("message_thread_id") or None
        answered, quote = self._answered(call, chat)
        if thread is None and answered is not None:
            thread = _topic_of(answered)  # who answers in a topic writes there
        if thread is not None or chat.forum:
            self.world.check_thread(chat, thread)
        return Target(chat, thread, answered["message_id"] if answered else None, quote)

    def _answered(self, call: Call, chat: Chat) -> tuple[Json | None, str]:
        """The message that is answered, and the words quoted from it."""
        wanted = call.parsed("reply_parameters", "reply parameters")
        if wanted is None:
            old = call.number_of("reply_to_message_id")
            lenient = call.flag("allow_sending_without_reply")
            wanted = {"message_id": old, "allow_sending_without_reply": lenient} if old else {}
        if not isinstance(wanted, dict):
            raise bad_request("can't parse reply parameters JSON object")
        if not wanted.get("message_id"):
            return None, ""
        place = self.world.found(wanted["chat_id"]) if wanted.get("chat_id") else chat
        message = place.messages.get(_number(wanted["message_id"]))
        lenient = bool(wanted.get("allow_sending_without_reply"))
        if message is None and lenient and place is chat:  # R: always strict for another chat
            return None, ""
        if message is None:
            raise named(self.reply_gone)
        quote = str(wanted.get("quote") or "")
        if quote and quote not in str(message.get("text", message.get("caption", ""))):
            if not lenient:
                raise bad_request("QUOTE_TEXT_INVALID")
            quote = ""
        return message, quote

    # -- accepting ---------------------------------------------------------------------------

    def admit(self, call: Call, target: Target, messages: int = 1) -> None:
        """The last check: flood control. Raises its refusal."""
        self.floods.count(target.chat.id, messages)
        call.accepted = True

    def put(self, call: Call, target: Target, content: Json, record: dict[str, Any]) -> Json:
        """The message stands in its chat, and in the truth. Returns it as the API shows it."""
        chat, world = target.chat, self.world
        author = None if chat.kind == "channel" else world.bot
        message = world.compose(chat, author, target.thread, target.reply_to, target.quote) | content
        chat.messages[message["message_id"]] = message
        self.truth.append(
            Accepted(
                chat=chat.id,
                thread=target.thread,
                message_id=message["message_id"],
                method=call.method,
                reply_to=target.reply_to,
                quote=target.quote or None,
                call=call.number,
                at_ms=world.clock.now().wall,
                **record,
            )
        )
        if chat.kind == "channel":
            if world.own_posts_come_back:
                world.show(chat, message)
            world.forward_to_linked(chat, message)
        return message

    # -- the calls themselves ----------------------------------------------------------------

    def send_message(self, call: Call) -> Json:
        if not call.text("text"):
            raise named("text_empty")
        text, entities = self.formatted(call, "text", "entities")
        previews = call.parsed("link_preview_options", "link preview options")
        if previews is not None and not isinstance(previews, dict):
            raise bad_request("can't parse link preview options JSON object")
        target = self.target(call)
        if blank(text):
            raise bad_request("text must be non-empty")
        if self.length(text) > text_max:
            raise named("too_long")
        self.admit(call, target)
        content: Json = {"text": text}
        shown = found_in(text, entities)
        if shown:
            content["entities"] = shown
        if previews:
            content["link_preview_options"] = previews
        return self.put(call, target, content, {"text": text, "entities": tuple(entities)})

    def edit_message_text(self, call: Call) -> Json:
        if not call.text("text"):
            raise named("text_empty")
        text, entities = self.formatted(call, "text", "entities")
        chat = self.world.found(call.values.get("chat_id"))
        self.world.check_standing(chat)
        message = chat.messages.get(call.number_of("message_id") or 0)
        if message is None:
            raise bad_request("message to edit not found")
        if "text" not in message:
            raise bad_request("there is no text in the message to edit")
        if not self._own(message, chat):
            raise bad_request("message can't be edited")
        if self.length(text) > text_max:
            raise named("too_long")
        shown = found_in(text, entities)
        if message["text"] == text and message.get("entities", []) == shown:
            raise bad_request(
                "message is not modified: specified new message content and reply markup are exactly "
                "the same as a current content and reply markup of the message"
            )
        call.accepted = True
        changed = {**message, "text": text, "edit_date": self.world.date()}
        changed.pop("entities", None)
        if shown:
            changed["entities"] = shown
        chat.messages[message["message_id"]] = changed
        record = Accepted(
            chat.id,
            _topic_of(message),
            message["message_id"],
            call.method,
            text,
            tuple(entities),
            call=call.number,
            at_ms=self.world.clock.now().wall,
        )
        self.truth.append(record)
        return changed

    def _own(self, message: Json, chat: Chat) -> bool:
        if chat.kind == "channel":
            return any(
                known.chat == chat.id and known.message_id == message["message_id"]
                for known in self.truth.accepted
            )
        return bool(message.get("from", {}).get("id") == self.world.bot.id)

    def send_chat_action(self, call: Call) -> bool:
        if call.text("action") not in _ACTIONS:
            raise bad_request("wrong parameter action in request")
        chat = self.world.found(call.values.get("chat_id"))
        self.world.check_right_to_write(chat)
        thread = call.number_of("message_thread_id") or None
        if thread not in (None, general_thread):
            self.world.check_thread(chat, thread)
        return True


_ACTIONS_IN_WORDS = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document "
    "choose_sticker find_location record_video_note upload_video_note"
)
_ACTIONS = frozenset(_ACTIONS_IN_WORDS.split())


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise bad_request("can't parse reply parameters: message_id must be a Number") from None


def _topic_of(message: Json) -> int | None:
    return message["message_thread_id"] if message.get("is_topic_message") else None
