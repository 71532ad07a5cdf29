"""The agent that is a service of one's own: one signed POST per run, the answer in its body.

The service gets what a person said, the conversation's earlier lines and the files that came,
and answers with a text, files, and what it consumed. One run is one request on a connection of
its own: nothing here repeats it, and redirects are not followed.

The signature is that of Standard Webhooks, as on the platform ``webhook``. The contract in
full, for the service's author, is ``docs/guides/agents.md``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from standardwebhooks import Webhook
from yarl import URL

from angelia.agents.base import Answer, AttachedFile, Question, ReceivedFile
from angelia.model import limits
from angelia.model.errors import AgentError
from angelia.model.messages import Usage, well_formed
from angelia.model.written import http_address, signing_key
from angelia.seams.clock import Clock

_CONNECT_S = 10.0
_FILES_BYTES_MAX = 20 * 1024 * 1024  # of the files that go along with a question
_BODY_BYTES_MAX = 96 * 1024 * 1024  # of an answer, its files included
_COMPLAINT_CHARACTERS_MAX = 300


class HttpSettings(BaseModel):
    """``url``: where questions are posted. ``secret``: the signing key. ``history_messages``: how
    many earlier lines of the conversation go along. ``timeout_s``: the time limit of one run in
    seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = Field(repr=False)
    secret: SecretStr
    history_messages: int = Field(default=20, ge=0)
    timeout_s: float = Field(default=limits.turn_timeout_s, gt=0, allow_inf_nan=False)

    @field_validator("secret")
    @classmethod
    def _usable_secret(cls, secret: SecretStr) -> SecretStr:
        signing_key(secret.get_secret_value())
        return secret

    @field_validator("url")
    @classmethod
    def _usable_address(cls, address: str) -> str:
        return http_address(address)


class HttpAgent:
    """Answers with what a service says."""

    def __init__(self, settings: HttpSettings, clock: Clock) -> None:
        self.timeout_s = settings.timeout_s
        self.history_messages = settings.history_messages
        self._url = URL(settings.url)
        self._signer = Webhook(signing_key(settings.secret.get_secret_value()))
        self._clock = clock
        self._runs = 0

    def model_for(self, attempt: int) -> str:
        """What to write down as the model of a run."""
        return f"{self._url.host}{self._url.path}"

    async def run(self, question: Question) -> Answer:
        """Ask once. Raises ``AgentError`` with a line that names host and path, never the query."""
        body = await asyncio.to_thread(_body_of, question)
        wait = aiohttp.ClientTimeout(total=self.timeout_s, connect=min(_CONNECT_S, self.timeout_s))
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True), timeout=wait, trust_env=False
                ) as session,
                session.post(
                    self._url, data=body, headers=self._headers(body), allow_redirects=False
                ) as response,
            ):
                said = await _read(response)
        except TimeoutError:
            raise AgentError(f"{self.model_for(0)} gave no answer within {self.timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise AgentError(f"{self.model_for(0)} could not be asked: {reason}") from None
        if response.status != 200:
            complaint = " ".join(said.decode("utf-8", "replace").split())[:_COMPLAINT_CHARACTERS_MAX]
            raise AgentError(f"{self.model_for(0)} answered with status {response.status}: {complaint}")
        try:
            return await asyncio.to_thread(_answer_of, said, self.model_for(0))
        except ValueError as error:
            raise AgentError(f"{self.model_for(0)} sent no usable answer: {error}") from None

    async def close(self) -> None:
        """There is nothing to free: every run has its own connection."""

    def _headers(self, body: str) -> dict[str, str]:
        self._runs += 1
        now = datetime.fromtimestamp(self._clock.now().wall / 1000, UTC)
        name = f"run_{int(now.timestamp() * 1000)}_{self._runs}"
        return {
            "Content-Type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(name, now, body),
        }


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _BODY_BYTES_MAX:
            raise AgentError(f"the answer is longer than {_BODY_BYTES_MAX} bytes")
    return bytes(body)


def _body_of(question: Question) -> str:
    """What the service is asked, as JSON."""
    return json.dumps(
        {
            "conversation": question.conversation,
            "user": question.user,
            "user_name": question.user_name,
            "text": well_formed(question.text),
            "history": [{"role": line.role, "text": well_formed(line.text)} for line in question.history],
            "files": _files_of(question.files),
        }
    )


def _files_of(files: Sequence[ReceivedFile]) -> list[dict[str, Any]]:
    """The files that came, with their bytes as far as these are not too many."""
    room = _FILES_BYTES_MAX
    told = []
    for file in files:
        known = file.attachment
        one: dict[str, Any] = {
            "name": known.name,
            "mime": known.mime,
            "kind": known.kind.value,
            "size": known.size,
        }
        if known.size <= room:
            try:
                one["data"] = base64.b64encode(file.path.read_bytes()).decode()
                room -= known.size
            except OSError:
                pass  # told without its bytes
        told.append(one)
    return told


def _answer_of(body: bytes, model: str) -> Answer:
    """What the service said. Raises ``ValueError`` with what is wrong with it."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    text = said.get("text", "")
    if not isinstance(text, str):
        raise ValueError("text is no string")
    if len(text) > limits.text_characters_max:
        raise ValueError(f"text is longer than {limits.text_characters_max} characters")
    files = said.get("files", [])
    if not isinstance(files, list):
        raise ValueError("files is no list")
    return Answer(well_formed(text), _usage(said.get("usage"), model), tuple(_file(one) for one in files))


def _file(said: object) -> AttachedFile:
    if not isinstance(said, dict) or not isinstance(said.get("data"), str):
        raise ValueError("a file is no object with data")
    try:
        data = base64.b64decode(said["data"], validate=True)
    except binascii.Error:
        raise ValueError("the data of a file is not base64") from None
    words = {name: said.get(name, "") for name in ("name", "mime", "caption")}
    if not all(isinstance(word, str) for word in words.values()):
        raise ValueError("name, mime and caption of a file are strings")
    return AttachedFile(data, **{name: well_formed(word) for name, word in words.items()})


def _usage(said: object, model: str) -> Usage:
    if not isinstance(said, dict):
        return Usage(model=model)
    named = said.get("model")
    return Usage(
        _count(said.get("input_tokens")),
        _count(said.get("output_tokens")),
        well_formed(named) if isinstance(named, str) and named else model,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
