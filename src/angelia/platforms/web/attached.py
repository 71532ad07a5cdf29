"""How a file of an answer is told to the page: what it is, and a link to it.

The page fetches it from the gateway's one server, with a link that is signed and ends. The link
is relative to the root of the server, so that it holds behind a proxy, too.
"""

from __future__ import annotations

from angelia.model.media import Attachment
from angelia.platforms.base import Host


def attached(host: Host, attachment: Attachment, written_at: int) -> dict[str, object]:
    """The field ``attachment`` of a part. Raises ``StoreUnavailableError``: no link can be made."""
    return {
        "url": host.link(attachment, written_at),
        "name": attachment.name,
        "mime": attachment.mime,
        "kind": attachment.kind.value,
        "size": attachment.size,
    }
