"""The agent that asks a model server which speaks the OpenAI chat completions protocol.

One run is one HTTP request, and nothing below this file may turn it into two: the client
library's own retries are off (``max_retries=0``), redirects are not followed, and every run
opens a fresh connection, so that a stale one cannot look like a failed answer. Proxies and
accounts are not taken from the environment: what is configured is what is asked.

Pictures go along where the model can see, voice becomes words first where a transcription server
is configured (``openai_files.py``, ``openai_hearing.py``). The words of a voice message open the
answer, so that they are on record and the person sees what was understood.

On 429 and 5xx, where a ``fallback_model`` is configured, ``FallbackError`` says that the run
may be made again, by the engine and on record, with that model.

The client library is an extra, imported when the agent is made.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

from angelia.agents.base import Answer, FallbackError, Question
from angelia.agents.openai_files import Taken, taken
from angelia.agents.openai_hearing import Hearing, TranscriptionSettings, goes_into_a_header
from angelia.agents.openai_messages import asked, heard_line, told
from angelia.model import limits, notices
from angelia.model.errors import AgentError, ConfigError
from angelia.model.messages import Usage, well_formed

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

_COMPLAINT_CHARACTERS_MAX = 300
_CONNECT_S = 10.0
_Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class OpenAISettings(BaseModel):
    """``base_url``: up to and including ``/v1``. ``model``: the model's name, as the server knows
    it. ``api_key``: any word for a server that wants none. ``system``: the system prompt.
    ``history_messages``: how many earlier lines of the conversation the model sees, at most.
    ``history_tokens``: how many tokens they may have together, as estimated; the oldest are left
    out. ``vision``: the model can see pictures. ``transcription``: a server that turns voice
    messages into words. ``fallback_model``: asked once, as a second recorded run, when the first
    is refused with 429 or 5xx. ``timeout_s``: the time limit of one run in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(pattern=r"^https?://[^\s/@]+(/[^\s@]*)?$")
    model: _Name
    api_key: SecretStr
    system: str | None = None
    history_messages: int = Field(default=20, ge=0)
    history_tokens: int = Field(default=8000, ge=0)
    vision: bool = False
    transcription: TranscriptionSettings | None = None
    fallback_model: _Name | None = None
    timeout_s: float = Field(default=limits.turn_timeout_s, gt=0, allow_inf_nan=False)

    @field_validator("api_key")
    @classmethod
    def _usable_key(cls, api_key: SecretStr) -> SecretStr:
        return goes_into_a_header(api_key)


class OpenAIAgent:
    """Answers with a chat completion. Raises ``ConfigError`` without the extra ``openai``."""

    def __init__(self, settings: OpenAISettings) -> None:
        try:
            import openai
        except ImportError:
            raise ConfigError("the agent openai needs a package: pip install 'angelia[openai]'") from None
        self.history_messages = settings.history_messages
        self.timeout_s = settings.timeout_s
        self._settings = settings
        self._openai = openai
        wait = openai.Timeout(settings.timeout_s, connect=min(_CONNECT_S, settings.timeout_s))
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value(),
            max_retries=0,
            timeout=wait,
            default_headers={"Connection": "close"},
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False, timeout=wait),
        )
        self._client.organization = self._client.project = None
        self._hearing = Hearing(settings.transcription, openai) if settings.transcription else None

    def model_for(self, attempt: int) -> str:
        """What to write down as the model of a run."""
        return (attempt > 0 and self._settings.fallback_model) or self._settings.model

    async def run(self, question: Question) -> Answer:
        """Ask once. Raises ``FallbackError`` where the fallback model may be asked, else
        ``AgentError``; neither text contains the key. A voice message alone that gives no words is
        answered here, and the model is not asked."""
        model = self.model_for(question.attempt)
        try:
            async with asyncio.timeout(self.timeout_s):
                files = await taken(question, self._settings.vision, self._hearing)
                if files.lines and files.silent and not files.words and not question.text.strip():
                    said = notices.CANNOT_LISTEN if files.deaf else notices.NOT_UNDERSTOOD
                    return Answer(said, Usage(0, 0, model))
                completion = await self._ask(model, question, files)
        except TimeoutError:
            raise AgentError(f"{model} gave no answer within {self.timeout_s:g} s") from None
        answer = self._answer(completion, model)
        if not files.words or not answer.text.strip():
            return answer
        return replace(answer, text="\n\n".join((heard_line("\n".join(files.words)), answer.text)))

    async def _ask(self, model: str, question: Question, files: Taken) -> ChatCompletion:
        """The one request."""
        openai = self._openai
        try:
            return await self._client.chat.completions.create(
                model=model, messages=self._messages(question, files)
            )
        except openai.APITimeoutError:
            raise TimeoutError from None
        except openai.APIStatusError as error:
            complaint = self._presentable(
                f"{model} answered with status {error.status_code}: {error.message}"
            )
            if (
                question.attempt == 0
                and self._settings.fallback_model
                and _worth_a_fallback(error.status_code)
            ):
                raise FallbackError(complaint) from None
            raise AgentError(complaint) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__
            reason = f"{type(cause).__name__}: {cause}" if cause else str(error)
            raise AgentError(self._presentable(f"{model} could not be asked: {reason}")) from None
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a body that is no JSON
            raise AgentError(self._presentable(f"{model} sent no usable answer: {error}")) from None

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()
        if self._hearing is not None:
            await self._hearing.close()

    def _messages(self, question: Question, files: Taken) -> list[ChatCompletionMessageParam]:
        messages: list[ChatCompletionMessageParam] = []
        if self._settings.system:
            messages.append({"role": "system", "content": self._settings.system})
        messages += told(question.history, self.history_messages, self._settings.history_tokens)
        said = [well_formed(question.text), *files.words, *files.lines]
        messages.append(asked("\n".join(one for one in said if one), files.pictures))
        return messages

    def _answer(self, completion: Any, model: str) -> Answer:
        """The text and the usage of a completion. The library checks nothing of what a server
        sent, so this does."""
        try:
            text = completion.choices[0].message.content or ""
        except (AttributeError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise AgentError(f"{model} sent something that is no chat completion")
        if len(text) > limits.text_characters_max:
            raise AgentError(f"{model} wrote more than {limits.text_characters_max} characters")
        usage = getattr(completion, "usage", None)
        named = getattr(completion, "model", None)
        return Answer(
            well_formed(text),
            Usage(
                _count(getattr(usage, "prompt_tokens", None)),
                _count(getattr(usage, "completion_tokens", None)),
                named if isinstance(named, str) and named else model,
            ),
        )

    def _presentable(self, complaint: str) -> str:
        """One short line without the key, whatever the server said."""
        line = " ".join(
            well_formed(complaint).replace(self._settings.api_key.get_secret_value(), "…").split()
        )
        return line[:_COMPLAINT_CHARACTERS_MAX]


def _worth_a_fallback(status: int) -> bool:
    return status == 429 or status >= 500


def _count(value: object) -> int | None:
    """A number of tokens, if a server sent one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
