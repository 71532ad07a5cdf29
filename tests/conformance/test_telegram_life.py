"""The life of a Telegram adapter: how it starts, what it does in trouble, how it ends."""

from __future__ import annotations

import pytest
import structlog
from tests.conformance.telegram_bot import adapter, bot, eventually, to

from angelia.model.errors import AdapterDownError, BadCredentialError
from angelia.model.outcomes import (
    Accepted,
    BadCredential,
    Unconfirmed,
)
from angelia.testing.breaking_server import BreakingServer, answer, refusing
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer, steps


async def test_a_revoked_token_names_the_profile_and_botfather() -> None:
    async with TelegramServer() as server:
        token = server.token
        server.revoke_token()
        one = adapter(server.url, token)
        with pytest.raises(BadCredentialError, match=r"profile default .*@BotFather") as caught:
            await one.start(FakeHost())
        await one.stop()
        assert token not in str(caught.value)


async def test_what_is_no_bot_api_is_said_so() -> None:
    for status, body in ((200, b"<html>"), (404, b"<html>"), (200, b'{"ok":true,"result":{"id":1}}')):
        async with BreakingServer(answer(status, None, body)) as server:
            one = adapter(server.url)
            with pytest.raises(AdapterDownError, match="no Bot API"):
                await one.start(FakeHost())
            await one.stop()
    async with refusing() as url:
        one = adapter(url)
        with pytest.raises(AdapterDownError, match="cannot be reached"):
            await one.start(FakeHost())
        await one.stop()


async def test_a_token_revoked_while_it_runs_ends_the_instance() -> None:
    host = FakeHost()
    async with TelegramServer() as server, bot(server, host) as sender:
        await server.until(lambda: server.updates.parked)
        server.revoke_token()
        server.cut_all()
        await host.until(lambda: host.losses)
        assert "refused the token" in host.losses[0]
        assert isinstance(await sender.send(to(1)), BadCredential)


async def test_m3_a_second_poller_is_told_to_the_operator_and_the_rest_goes_on() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        with structlog.testing.capture_logs() as logs:
            server.script(steps.refuse("conflict"), method="getUpdates")
            async with bot(server, host) as sender:
                await eventually(lambda: any(one["action"] == "telegram.second_poller" for one in logs))
                assert isinstance(await sender.send(to(server.world.private())), Accepted)
        (told,) = [line for line in logs if line["action"] == "telegram.second_poller"]
        assert told["log_level"] == "error"
        assert server.token not in repr(logs)
        assert host.losses == []
        assert host.troubles[0].startswith("another program asks for the updates")


async def test_a_webhook_that_somebody_set_is_removed_without_losing_what_waits() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.say(ada, "waiting")
        server.script(steps.refuse("webhook_active"), method="getUpdates")
        async with bot(server, host):
            await host.until(lambda: host.received)
        assert len(server.calls_of("deleteWebhook")) == 2
        assert not any(call.values.get("drop_pending_updates") for call in server.calls)


async def test_a_connection_that_comes_back_brings_waiting_rows_forward() -> None:
    host = FakeHost()
    async with TelegramServer() as server, bot(server, host, timeout_s=0.5) as sender:
        ada = server.world.private()
        server.script(steps.hang(), method="sendMessage")
        assert isinstance(await sender.send(to(ada)), Unconfirmed)
        assert None not in host.hints
        await sender.send(to(ada))
        assert host.hints == [None]
