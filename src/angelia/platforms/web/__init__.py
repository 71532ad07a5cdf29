"""The platform ``web``: a chat page that the gateway serves by itself.

``settings`` what may be configured · ``access`` who may open it · ``assets`` the files of the
page and their headers · ``frames`` what a page may say · ``sockets`` the open pages and the
parts on their way to them · ``attached`` what a page is told of a file · ``dialogue`` one page's
side of the talk · ``adapter`` the whole.
The protocol is written down in ``docs/reference/web-protocol.md``.
"""

from angelia.platforms.web.adapter import WebAdapter
from angelia.platforms.web.settings import WebSettings

__all__ = ["WebAdapter", "WebSettings"]
