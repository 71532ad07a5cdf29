"""Voice into words, by a server that speaks the OpenAI transcription protocol.

One file is one request: the client library's retries are off, redirects are not followed. What was
heard is remembered for the length of the process, by the content of the file, so that the second
run of a question (with the fallback model) does not pay for it again; a failure is remembered for
that second run only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

from angelia.agents.base import ReceivedFile
from angelia.model import limits
from angelia.model.messages import well_formed

sound_bytes_max = 25 * 1000 * 1000  # OpenAI's own bound (API reference, "Create transcription")
remembered_max = 64
_CONNECT_S = 10.0
_COMPLAINT_CHARACTERS_MAX = 300
#: Servers go by the ending of the name.
_ENDINGS = {
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/flac": "flac",
    "audio/webm": "webm",
}


def goes_into_a_header(api_key: SecretStr) -> SecretStr:
    """``api_key``, if it can be one. Raises ``ValueError``."""
    value = api_key.get_secret_value()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("must be ASCII without spaces, and not empty")
    return api_key


class TranscriptionSettings(BaseModel):
    """``base_url``: of the transcription server, up to and including ``/v1``. ``model``: the model's
    name there. ``api_key``: for a server that wants one. ``timeout_s``: the time limit of one voice
    message in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: str = Field(pattern=r"^https?://[^\s/@]+(/[^\s@]*)?$")
    model: Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=120.0, gt=0, allow_inf_nan=False)

    @field_validator("api_key")
    @classmethod
    def _usable_key(cls, api_key: SecretStr | None) -> SecretStr | None:
        return None if api_key is None else goes_into_a_header(api_key)


class NotHeardError(Exception):
    """Why a voice message did not become words, for the operator. Never contains the key."""


class Hearing:
    """Asks the transcription server. ``library`` is the module ``openai``."""

    def __init__(self, settings: TranscriptionSettings, library: Any) -> None:
        self._settings = settings
        self._openai = library
        self._key = settings.api_key.get_secret_value() if settings.api_key else ""
        wait = library.Timeout(settings.timeout_s, connect=min(_CONNECT_S, settings.timeout_s))
        self._client = library.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=self._key or "none",  # the library wants a word
            max_retries=0,
            timeout=wait,
            default_headers={"Connection": "close"},
            http_client=library.DefaultAsyncHttpxClient(
                trust_env=False, follow_redirects=False, timeout=wait
            ),
        )
        self._client.organization = self._client.project = None
        self._heard: OrderedDict[str, str] = OrderedDict()  # "": not heard

    async def words(self, file: ReceivedFile, attempt: int) -> str:
        """What is said in a file, never empty. Raises ``NotHeardError``."""
        known = self._heard.get(file.attachment.file)
        if known:
            return known
        if known is not None and attempt > 0:
            raise NotHeardError("it was not understood a moment ago")
        self._remember(file, "")
        words = await self._ask(file)
        self._remember(file, words)
        return words

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()

    def _remember(self, file: ReceivedFile, words: str) -> None:
        self._heard[file.attachment.file] = words
        self._heard.move_to_end(file.attachment.file)
        while len(self._heard) > remembered_max:
            self._heard.popitem(last=False)

    async def _ask(self, file: ReceivedFile) -> str:
        openai, about = self._openai, file.attachment
        if about.size > sound_bytes_max:
            raise NotHeardError(f"it has more than {sound_bytes_max} bytes")
        mime = about.mime.partition(";")[0].strip().lower()
        try:
            data = await asyncio.to_thread(file.path.read_bytes)
            async with asyncio.timeout(self._settings.timeout_s):
                said = await self._client.audio.transcriptions.create(
                    model=self._settings.model, file=(f"voice.{_ENDINGS.get(mime, 'ogg')}", data, mime)
                )
        except OSError as error:  # asyncio's TimeoutError is one
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error.strerror)
            raise NotHeardError(reason) from None
        except openai.APIStatusError as error:
            raise NotHeardError(self._presentable(f"status {error.status_code}: {error.message}")) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise NotHeardError(self._presentable(f"{type(cause).__name__}: {cause}")) from None
        except (openai.OpenAIError, ValueError) as error:
            raise NotHeardError(self._presentable(f"no usable answer: {error}")) from None
        text = said if isinstance(said, str) else getattr(said, "text", None)
        if not isinstance(text, str) or not text.strip():
            raise NotHeardError("the server heard no words")
        if len(text) > limits.text_characters_max:
            raise NotHeardError(f"the words have more than {limits.text_characters_max} characters")
        return well_formed(text.strip())

    def _presentable(self, complaint: str) -> str:
        line = well_formed(complaint)
        if self._key:
            line = line.replace(self._key, "…")
        return " ".join(line.split())[:_COMPLAINT_CHARACTERS_MAX]
