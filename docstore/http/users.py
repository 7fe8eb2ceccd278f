"""/core/access: who asks, and what he may do; /core/access/users/<name>: what a user may do.

A version of a document names its maker by such a link. Everybody sees himself, who runs the group
sees all users of this node's access file. Bearers of signed tokens have no page but `/core/access`:
what they may do stands in their tokens.
"""

from aiohttp import web

from docstore.errors import NotFound
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.methods import READ_METHODS, allowed, check_method
from docstore.http.parameters import check_parameters
from docstore.http.reply import Reply
from docstore.http.representation import page_reply
from docstore.model.principals import USERS, user_link

ACCESS = "/core/access"


class UserPages:
    """Answers them."""

    def takes(self, path: str) -> bool:
        """Say whether a canonical path is one of theirs."""
        return path == ACCESS or path.rpartition("/")[0] == USERS

    async def serve(self, request: web.BaseRequest, path: str) -> Reply:
        """Answer a request for one."""
        check_method(request, READ_METHODS)
        if request.method == "OPTIONS":
            return allowed(READ_METHODS)
        check_parameters(request)
        authority = authority_of(request)
        name = authority.name if path == ACCESS else path.rpartition("/")[2]
        grants = authority.grants_of(name) if name else None
        if grants is None:
            raise NotFound(f"there is nothing at {path}")
        levels = {where: level.name.lower() for where, level in sorted(grants.items())}
        page = {"documentSelfLink": user_link(name), "name": name, "grants": levels}
        return page_reply(page, headers.accepted_media(request))
