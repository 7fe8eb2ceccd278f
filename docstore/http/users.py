"""/core/access: the caller and its permissions; /core/access/users/<name>: those of a user.

A version of a document names its author by such a link. A user sees its own page; an admin of `/`
sees all users of this node's access file. The bearer of a signed token has no page but
`/core/access`: the token contains its permissions.
"""

from aiohttp import web

from docstore.errors import NotFound
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.reply import Reply
from docstore.http.representation import page_reply
from docstore.model.principals import user_link


class UserPages:
    """Answers /core/access and the pages of users."""

    async def oneself(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the caller's own page."""
        return self._page(request, path, authority_of(request).name)

    async def user(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        return self._page(request, path, path.rpartition("/")[2])

    def _page(self, request: web.BaseRequest, path: str, name: str) -> Reply:
        grants = authority_of(request).grants_of(name) if name else None
        if grants is None:
            raise NotFound(f"there is nothing at {path}")
        levels = {where: level.name.lower() for where, level in sorted(grants.items())}
        page = {"documentSelfLink": user_link(name), "name": name, "grants": levels}
        return page_reply(page, headers.accepted_media(request))
