"""The few errors of the house. The docstring is the message and its advice."""

from __future__ import annotations


class AngeliaError(Exception):
    """Anything that this program raises on purpose."""


class StoreUnavailableError(AngeliaError):
    """The store cannot be written just now (disk full, locked, failed sync).

    Nothing of the call is on record. Try again; verbs are repeatable by id.
    """


class StoreDamagedError(AngeliaError):
    """The store is damaged. Keep the file and run ``angelia salvage``; nothing was changed."""


class StoreNewerError(AngeliaError):
    """The store was written by a newer Angelia. Upgrade this program; nothing was changed."""


class ConfigError(AngeliaError):
    """The configuration cannot be used. The text names file, line and key, never a value."""


class HomeLockedError(AngeliaError):
    """Another gateway runs on this home. Stop it, or choose another ``ANGELIA_HOME``."""


class AgentError(AngeliaError):
    """The agent failed. The text is for the operator; the person gets a short honest notice."""


class AdapterDownError(AngeliaError):
    """The platform cannot be reached now. The supervisor tries again with growing pauses."""


class BadCredentialError(AngeliaError):
    """The platform refused the credential. Put a valid one into ``.env`` and restart."""


class MediaError(AngeliaError):
    """A file cannot be attached: not there, unreadable, empty or too large."""

    def __init__(self, text: str, too_large: bool = False) -> None:
        super().__init__(text)
        self.too_large = too_large


class TryAgainError(AngeliaError):
    """The row is being worked on at this moment. Try again in a few seconds."""


class UnknownIdError(AngeliaError):
    """There is no such id in the store (it may have been pruned after 7 days)."""


class NotPossibleError(AngeliaError):
    """The state of the row does not allow this. The text says what does."""
