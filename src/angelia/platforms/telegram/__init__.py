"""The platform ``telegram``: a bot in private chats, groups, topics and channels.

No library of the Bot API stands between us and the wire. One call here is one HTTP request
through ``platforms.http``, which knows at the connection whether a byte may have left, and an
update is read field by field, so that one that nobody foresaw stops no other. (aiogram was
tried for its types: importing it takes about ten seconds of processor time on a small
machine, at every start; a restart is the moment when an owed answer waits.)

In: ``polling`` or ``webhook_mode`` hands each update to ``intake``, which asks ``admission``
whether it is for us, ``content`` what it says, ``bursts`` what it belongs to and ``files`` for
its bytes, and commits it. Only then the offset moves, or the 2xx leaves.

Out: ``splitting`` cuts an answer, ``markdown`` turns each piece into a text and its entities,
``outbound`` makes the one call, ``outcomes`` says what it taught.
"""
