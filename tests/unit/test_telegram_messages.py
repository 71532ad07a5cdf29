"""Reading updates: what a message says, whether it is for us, and what it belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from angelia.platforms.telegram.admission import addressed, sender, spoken_by_a_person, thread_of
from angelia.platforms.telegram.bursts import Bursts
from angelia.platforms.telegram.content import content_of
from angelia.platforms.telegram.updates import Me, Message

ME = Me(id=42, username="Our_Bot", is_bot=True)
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "L."}
GROUP = {"id": -5, "type": "supergroup", "title": "The group"}


def message(**fields: Any) -> Message:
    known = {"message_id": 1, "date": 100, "chat": GROUP, "from": ADA}
    return Message.model_validate(known | fields)


def entity(kind: str, offset: int, length: int, **more: object) -> dict[str, object]:
    return {"type": kind, "offset": offset, "length": length, **more}


def called(groups: str = "mention", **fields: Any) -> bool:
    return addressed(message(**fields), ME, groups)


# -- who speaks ------------------------------------------------------------------------------


def test_a_person_an_anonymous_administrator_and_a_channel_speak_under_their_own_ids() -> None:
    assert sender(message()) == ("7", "Ada L.")
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    as_group = message(**{"from": anonymous}, sender_chat=GROUP)
    assert sender(as_group) == ("-5", "The group")
    assert spoken_by_a_person(as_group, ME)
    channel = {"id": -9, "type": "channel", "title": "News"}
    as_channel = message(**{"from": {"id": 136817688, "is_bot": True}}, sender_chat=channel)
    assert sender(as_channel) == ("-9", "News")
    assert spoken_by_a_person(as_channel, ME)


def test_other_bots_our_own_echo_and_a_copied_post_start_nothing() -> None:
    assert not spoken_by_a_person(message(**{"from": {"id": 42, "is_bot": True}}), ME)
    assert not spoken_by_a_person(message(**{"from": {"id": 43, "is_bot": True}}), ME)
    assert not spoken_by_a_person(message(sender_chat=GROUP, is_automatic_forward=True), ME)


def test_threads() -> None:
    assert thread_of(message(message_thread_id=5, is_topic_message=True)) == "5"
    assert thread_of(message(message_thread_id=5)) == "", "a reply in a group without topics"
    assert thread_of(message(direct_messages_topic={"topic_id": 8})) == "direct:8"


# -- whether it is for us --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": "@our_bot hi", "entities": [entity("mention", 0, 8)]}, True),
        ({"text": "😀 @OUR_BOT", "entities": [entity("mention", 3, 8)]}, True),
        ({"text": "@our_bot2 hi", "entities": [entity("mention", 0, 9)]}, False),
        ({"text": "@our_bot hi"}, False),
        ({"caption": "@our_bot look", "caption_entities": [entity("mention", 0, 8)]}, True),
        ({"text": "you", "entities": [entity("text_mention", 0, 3, user={"id": 42})]}, True),
        ({"text": "you", "entities": [entity("text_mention", 0, 3, user={"id": 41})]}, False),
        ({"text": "/new@our_bot", "entities": [entity("bot_command", 0, 12)]}, True),
        ({"text": "/any@our_bot", "entities": [entity("bot_command", 0, 12)]}, True),
        ({"text": "/new@other", "entities": [entity("bot_command", 0, 10)]}, False),
        ({"text": "/new", "entities": [entity("bot_command", 0, 4)]}, True),
        ({"text": "/any", "entities": [entity("bot_command", 0, 4)]}, False),
        ({"text": "yes", "reply_to_message": {"message_id": 1, "chat": GROUP, "from": {"id": 42}}}, True),
        ({"text": "yes", "reply_to_message": {"message_id": 1, "chat": GROUP, "from": {"id": 41}}}, False),
        (
            {
                "text": "in our own topic",
                "reply_to_message": {
                    "message_id": 1,
                    "chat": GROUP,
                    "from": {"id": 42},
                    "forum_topic_created": {"name": "x"},
                },
            },
            False,
        ),
    ],
)
def test_the_rule_of_mentions(fields: dict[str, Any], expected: bool) -> None:
    assert called(**fields) is expected


def test_the_rule_all_and_private_chats() -> None:
    assert called("all", text="anything")
    assert not called("all", text="/new@other", entities=[entity("bot_command", 0, 10)])
    assert called(text="anything", chat={"id": 7, "type": "private"})


# -- what it says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": "hi"}, "hi"),
        ({"text": "/new@our_bot", "entities": [entity("bot_command", 0, 12)]}, "/new"),
        ({"text": "@our_bot, hi", "entities": [entity("mention", 0, 8)]}, "hi"),
        ({"text": "@our_bot", "entities": [entity("mention", 0, 8)]}, "@our_bot"),
        ({"text": "hi @our_bot", "entities": [entity("mention", 3, 8)]}, "hi @our_bot"),
        ({"text": "/start", "entities": [entity("bot_command", 0, 6)]}, "/help"),
        ({"text": "/start ref17", "entities": [entity("bot_command", 0, 6)]}, "/help"),
        ({"sticker": {"emoji": "🎉", "file_id": "x"}}, "[a sticker: 🎉]"),
        ({"location": {"latitude": 1.5, "longitude": 2.5}}, "[a location: 1.5, 2.5]"),
        ({"venue": {"title": "Café", "address": "Street 1"}, "location": {}}, "[a place: Café, Street 1]"),
        ({"contact": {"first_name": "Bob", "phone_number": "+49"}}, "[a contact: Bob, +49]"),
        ({"poll": {"question": "When?"}}, "[a poll: When?]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[a die: 🎲, 4]"),
        ({"story": {"id": 1}}, "[a story]"),
        ({"video_note": {"file_id": "x"}}, "[a video message]"),
        ({"animation": {"file_id": "x"}, "document": {"file_id": "x"}}, "[an animation]"),
        (
            {"audio": {"file_id": "x", "title": "Song"}, "caption": "listen"},
            "[an audio file: Song]\n\nlisten",
        ),
        ({"text": "yes", "quote": {"text": "a\nb"}}, "> a\n> b\n\nyes"),
        (
            {
                "text": "yes",
                "reply_to_message": {"message_id": 1, "chat": GROUP, "photo": [{"file_id": "x"}]},
            },
            "> [a photo]\n\nyes",
        ),
        (
            {"text": "!why", "reply_to_message": {"message_id": 1, "chat": GROUP, "text": "an answer"}},
            "!why",
        ),
    ],
)
def test_what_a_message_says(fields: dict[str, Any], said: str) -> None:
    assert content_of(message(**fields), ME).worded() == said


def test_a_long_message_that_is_replied_to_is_quoted_in_its_beginning() -> None:
    replied = {"message_id": 1, "chat": GROUP, "text": "word " * 500}
    said = content_of(message(text="yes", reply_to_message=replied), ME).worded()
    assert said.startswith("> word word")
    assert said.endswith(" …\n\nyes")
    assert len(said) < 650


@pytest.mark.parametrize(
    "fields",
    [
        {"new_chat_members": [ADA]},
        {"pinned_message": {"message_id": 1, "chat": GROUP, "text": "x"}},
        {"migrate_to_chat_id": -100},
        {"forum_topic_created": {"name": "x"}},
        {},
    ],
)
def test_service_messages_say_nothing(fields: dict[str, Any]) -> None:
    assert content_of(message(**fields), ME).empty


def test_the_largest_size_of_a_photo_is_wanted() -> None:
    sizes = [{"file_id": "s", "file_size": 10}, {"file_id": "l", "file_size": 1000}]
    wanted = content_of(message(photo=sizes), ME).wanted
    assert wanted is not None
    assert (wanted.file_id, wanted.size, wanted.name, wanted.mime) == ("l", 1000, "photo-1.jpg", "image/jpeg")


# -- what belongs together -------------------------------------------------------------------

FULL = "x" * 4000


def test_j3_only_the_next_text_of_the_same_person_within_seconds_goes_on() -> None:
    def marks(*pieces: tuple[int, int, str]) -> list[str]:
        bursts = Bursts()
        placed = [
            bursts.place(message(message_id=number, date=date, text=text), "", "7", True)
            for number, date, text in pieces
        ]
        return [piece.mark for piece in placed]

    assert marks((1, 100, FULL), (2, 101, "end"), (3, 101, "new")) == ["paste:7:1", "paste:7:1", ""]
    assert marks((1, 100, FULL), (2, 101, FULL), (3, 102, "end")) == ["paste:7:1"] * 3
    assert marks((1, 100, FULL), (2, 110, "later")) == ["paste:7:1", ""]
    assert marks((1, 100, "short"), (2, 100, "short")) == ["", ""]
    assert marks((5, 100, FULL), (6, 100, FULL), (6, 100, FULL)) == ["paste:7:5"] * 3, "a replay"


def test_j3_pieces_of_others_and_of_other_topics_are_their_own() -> None:
    bursts = Bursts()
    bursts.place(message(message_id=1, text=FULL), "", "7", True)
    assert bursts.place(message(message_id=2, text="end"), "", "8", True).mark == ""
    assert bursts.place(message(message_id=3, text="end"), "9", "7", True).mark == ""
    assert bursts.place(message(message_id=4, text="end"), "", "7", True).mark == "paste:7:1"


def test_the_rest_of_a_paste_is_for_whom_its_first_piece_is() -> None:
    bursts = Bursts()
    assert bursts.place(message(message_id=1, text=FULL), "", "7", True).called
    assert bursts.place(message(message_id=2, text="end"), "", "7", False).called
    assert not bursts.place(message(message_id=3, date=200, text=FULL), "", "7", False).called
    assert not bursts.place(message(message_id=4, date=200, text="end"), "", "7", False).called


def test_an_album_is_for_us_if_one_of_its_captions_is() -> None:
    bursts = Bursts()
    album = {"media_group_id": "a1", "photo": [{"file_id": "x"}]}
    assert not bursts.place(message(message_id=1, **album), "", "7", False).called
    bursts.foresee(message(message_id=2, **album))
    assert bursts.place(message(message_id=1, **album), "", "7", False).called
    assert bursts.place(message(message_id=3, **album), "", "7", False).mark == "album:7:a1"


def test_memory_is_bounded() -> None:
    bursts = Bursts()
    for number in range(3000):
        bursts.place(message(message_id=number, text="x"), "", str(number), True)
        bursts.foresee(message(message_id=number, media_group_id=str(number)))
    assert len(bursts._speakers) <= 2000
    assert len(bursts._albums) <= 2000
