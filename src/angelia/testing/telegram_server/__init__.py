"""A scriptable Telegram Bot API server over real HTTP, with a world of people behind it.

For adapters and whole gateways: what it says is what the real server says, word for word, and
what it accepted is on record, whatever becomes of the answer. Nothing leaves the machine.

The server::

    async with TelegramServer() as server:                  # loopback, a free port
        base_url, token = server.url, server.token          # {url}/bot{token}/{method}
        ada = server.world.private("Ada")                   # the id of a person and their chat
        server.world.say(ada, "hello")                      # an update for the bot
        ...
        await server.until(lambda: server.accepted)         # bounded; raises TimeoutError
        assert server.accepted[0].text == "hi"

``TelegramServer(state=Path)`` writes the truth to a file as well (``read_truth(path)``); ``clock=``
takes any ``seams.clock.Clock`` for dates, waits and the day that updates are kept; ``limits=Limits()``
switches flood control on (1/s a chat, 20/min a group, 30/s a bot).

What happened, in order:

* ``server.accepted``: every message and edit that people now see: ``Accepted(chat, thread,
  message_id, method, text, entities, sha256, file_name, reply_to, quote, album, call, at_ms)``.
* ``server.calls``, ``server.calls_of("getUpdates")``: every call that was read: ``Call(number,
  method, values, files, accepted, outcome)``; ``method`` in lower case.
* ``server.unread``: methods that were reset before they were read; ``server.strangers``: methods
  called with a dead token; ``server.floods.trespasses``: numbers of the calls inside a wait.
* ``server.updates.pending``: what is not confirmed; ``.handed_out``: ids, poll by poll;
  ``.parked``: whether a poller waits; ``.repeat(update)``: a confirmed one comes again;
  ``.renumber(first)``: ids go on elsewhere, as after an idle week.
* ``server.webhook.pushes``: ``Push(update_id, status, attempt)``; ``.pause_first_s``: make it small.
* ``server.account.commands``: the menus that were set.

Scripts: ``server.script(*steps, method="", chat=None, when=None, for_ever=False)``. Each call that
fits gets the next step; no method means the sends, "*" all. Steps (``steps.…``):

* carried out, then: ``accept`` ``accept_and_hang`` ``accept_and_reset`` ``accept_and_close``
  ``accept_and_cut`` (half an answer) ``accept_and_say(status, body)`` ``accept_and_fail(name)`` (5xx)
  ``deleted_immediately``
* not carried out: ``reset_before_reading`` (by method only) ``reset`` ``hang`` ``fail(name)`` =
  ``refuse(name)`` (``REFUSALS`` lists the names: blocked, kicked, chat_not_found, thread_not_found,
  topic_closed, reply_not_found, too_long, cannot_parse, unauthorized, conflict, internal, bad_gateway …)
  ``migrated(to)`` ``flood(wait_s, scope="call"|"chat"|"bot")`` ``say(status, body)``
* first wait: ``slow(seconds, then)`` ``hold(gate, then)`` with ``server.release(gate)``

The world (``server.world``), everything by id: ``private(name)``, ``person(name)`` (has not started
the bot), ``group(title)``, ``supergroup(title, forum=True)``, ``channel(title, linked_group=)``,
``topic(chat, name)``; ``say(chat, text, sender, thread, reply_to, quote, age_s)``, ``start(chat)``,
``paste(chat, long_text)``, ``picture``, ``voice``, ``document``, ``album``, ``edit``, ``touch`` (an edit
that changes nothing); ``block``, ``unblock``, ``kick``, ``leave``, ``invite``, ``migrate(chat)``,
``close_topic``, ``delete_topic``, ``delete_message``, ``forbid_writing``, ``stand(chat, standing)``
(deactivated, deleted, not_started … unseen); ``privacy``, ``own_posts_come_back``.
``server.revoke_token()`` gives the new token; ``server.cut_all()`` drops every connection.
What the world refuses, it refuses by itself: a blocked chat, a topic that is gone, a text of 4097.
A topic is made by the bot unless ``by=`` says otherwise, so every message in it seems to answer the
bot, as in life. Limits that a test may change: ``server.sending.counted_in`` (the unit of text),
``.reply_gone`` (the wording), ``server.media.photo_bytes_max``, ``.upload_bytes_max``,
``.download_bytes_max``.

As a process: ``python -m angelia.testing.telegram_server --port 0 --state FILE --with-parent``. Its
first line is ``{"url": …, "token": …}``; ``async with ControlledTelegram(url) as telegram`` has
``await telegram.do("say", chat=ada, text="hello")`` for every verb of the world,
``telegram.script(...)``, ``.accepted()``, ``.calls(method)``, ``.until_accepted(condition)``,
``.until(look, condition)``. A server started again on its file goes on with the record and the
message ids; people, scripts and updates are made anew by the test.

Kinder than the real one: a poller that asks in haste for the same offset again gets all updates
(there: one, after up to 3 s); a webhook's address may be plain HTTP.
Not here: inline keyboards and callback queries, payments, stickers, polls, deleting and pinning,
several bots in one world, TLS. Any other method answers 404, as an unknown one does.
"""

from __future__ import annotations

from angelia.testing.telegram_server import steps
from angelia.testing.telegram_server.answers import REFUSALS, RefusalError
from angelia.testing.telegram_server.control import ControlledTelegram, control_routes
from angelia.testing.telegram_server.floods import Limit, Limits
from angelia.testing.telegram_server.parameters import Call
from angelia.testing.telegram_server.server import TelegramServer
from angelia.testing.telegram_server.steps import Step
from angelia.testing.telegram_server.truth import Accepted, read_truth

__all__ = [
    "REFUSALS",
    "Accepted",
    "Call",
    "ControlledTelegram",
    "Limit",
    "Limits",
    "RefusalError",
    "Step",
    "TelegramServer",
    "control_routes",
    "read_truth",
    "steps",
]
