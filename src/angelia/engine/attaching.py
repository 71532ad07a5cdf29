"""The files of an answer: spooled before anything on record names them.

What cannot be attached (missing, too large, a platform without files) becomes a line that
says so to the person, beside everything else of the answer; nothing fails for a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from angelia.agents.base import AttachedFile
from angelia.model import notices
from angelia.model.errors import MediaError, StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.media import Attachment
from angelia.model.messages import well_formed
from angelia.platforms.base import Capabilities
from angelia.seams.clock import Clock

log = structlog.get_logger("angelia")

#: How often a file is tried to be kept while the disk is full.
_TRIES = 3


class Spool(Protocol):
    """Where the bytes of attachments lie, under the name of their content."""

    async def keep(self, source: Path | bytes, name: str, mime: str, most: int) -> Attachment:
        """Copy bytes into the spool; synced when this returns. Raises ``MediaError`` (not there,
        unreadable, empty, more than ``most`` bytes) and ``StoreUnavailableError``."""
        ...

    def path(self, attachment: Attachment) -> Path:
        """Where its bytes lie, or would."""
        ...

    async def forget(self, named: Collection[str]) -> int:
        """Remove the files that are not ``named`` and a day old; how many."""
        ...


class Attaching:
    """``capabilities`` tells what the platform of a lane can take, connected or not.

    Without a spool nothing can be attached, which is said like everything else."""

    def __init__(
        self, spool: Spool | None, capabilities: Callable[[Lane], Capabilities | None], clock: Clock
    ) -> None:
        self.spool = spool
        self._capabilities = capabilities
        self._clock = clock

    async def prepare(
        self, lane: Lane, files: Sequence[AttachedFile]
    ) -> tuple[list[str], tuple[tuple[Attachment, str], ...]]:
        """Lines that stand in the place of what cannot be attached, or are too long to be a
        caption; and the attachments with their captions, spooled."""
        able = self._capabilities(lane)
        lines: list[str] = []
        kept: list[tuple[Attachment, str]] = []
        for file in files:
            caption = well_formed(file.caption).strip()
            attachment, refusal = await self._keep(file, able.media_bytes if able else 0)
            if attachment is None:
                lines.append(refusal)
            if caption and (attachment is None or able is None or able.measure(caption) > able.caption_limit):
                lines.append(caption)
                caption = ""
            if attachment is not None:
                kept.append((attachment, caption))
        return lines, tuple(kept)

    async def _keep(self, file: AttachedFile, most: int) -> tuple[Attachment | None, str]:
        name = file.shown
        if most <= 0 or self.spool is None:
            return None, notices.NO_FILES_HERE.format(name=name)
        for tries in range(_TRIES):
            try:
                return await self.spool.keep(file.source, name, file.mime, most), ""
            except MediaError as error:
                log.warning("a file cannot be attached", action="attachment.refused", error=str(error))
                said = notices.FILE_TOO_LARGE if error.too_large else notices.FILE_MISSING
                return None, said.format(name=name)
            except StoreUnavailableError as error:
                log.error("a file cannot be kept", action="attachment.waits", error=str(error))
                if tries < _TRIES - 1:
                    await self._clock.sleep(1.0)
        return None, notices.FILE_NOT_TAKEN.format(name=name)
