"""Subscriptions over HTTP; `services/subscriptions.py` defines them.

    <path>/subscriptions            POST: call a receiver of changes; GET; DELETE ?id=
    /core/subscriptions             GET: all of them
    /core/subscriptions/<id>        GET, PATCH (PauseRequest, ResumeRequest), DELETE

The document is created after the receiver has proven that it wants to be called
(`maintenance/webhooks/calling.py`). A user who may read everything at the path may create a
subscription, and sees only their own subscriptions; an `admin` of the path sees all.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace

import orjson
from aiohttp import web

from docstore.errors import BadRequest, Conflict, NotFound, TooManyRequests, Unavailable
from docstore.http import bodies, headers
from docstore.http.authority import authority_of, refusal
from docstore.http.backend import Backend
from docstore.http.changes import ChangePages
from docstore.http.core_pages import UtilityTarget
from docstore.http.documents import DocumentPages
from docstore.http.ids import id_of_key, new_id
from docstore.http.listing import Entry, FactoryPages, listed
from docstore.http.own_documents import handler_patch, patch_in
from docstore.http.reply import Reply
from docstore.http.representation import document_json, encode
from docstore.model import json
from docstore.model.document import EXPIRY, EXPIRY_US_MAX, Row
from docstore.model.fields import Fields
from docstore.model.operation import Answer, Operation
from docstore.model.service import Malformed
from docstore.model.settings import quoted
from docstore.services.subscriptions import (
    KIND,
    SUBSCRIPTIONS,
    Mark,
    Replay,
    SubscriptionState,
    read_subscription,
)
from docstore.subscriptions.signing import MADE_BYTES, key_of, secret_of

CLIENTS = ("PauseRequest", "ResumeRequest")
"""Requests that clients may send to a subscription. Only nodes set its position."""
SUBSCRIPTIONS_MAX, OF_A_USER_MAX = 1_000, 100
"""Limits of subscriptions: of the group, and of one user on a node with an access file."""
WHY_CHARACTERS_MAX = 200
ASKED = ("path", "callback", "where", "before", "user")
"""Members that a repeated request must have unchanged, as well as its secret."""


class TooManySubscriptions(TooManyRequests):
    """The group or the caller has the maximum number of subscriptions."""

    code = "too-many-subscriptions"


class SubscriptionPages(FactoryPages):
    """Answers everything under /core/subscriptions, and `<path>/subscriptions`."""

    def __init__(self, backend: Backend, documents: DocumentPages, changes: ChangePages) -> None:
        super().__init__(backend, documents)
        self._changes = changes

    async def get_list(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of all subscriptions that the caller may see."""
        return await self._list(request, path, lambda about: True)

    async def get(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        return self._reply(request, await self._found(request, link))

    async def delete(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        return await self._delete(request, link)

    async def get_list_of_path(
        self, request: web.BaseRequest, of: UtilityTarget, body: bytes
    ) -> Reply:
        """Answer GET of the subscriptions of a document or a factory."""
        own = f"{of.link}/subscriptions"
        return await self._list(request, own, lambda about: about.path == of.link)

    async def delete_of_path(
        self, request: web.BaseRequest, of: UtilityTarget, body: bytes
    ) -> Reply:
        """End the subscription that a parameter names."""
        query = request.rel_url.query
        if "id" not in query:
            raise BadRequest("parameter id must name the subscription to delete")
        link = f"{SUBSCRIPTIONS}/{query['id'].rpartition('/')[2]}"
        return await self._delete(request, link, of.link)

    async def create(self, request: web.BaseRequest, of: UtilityTarget, body: bytes) -> Reply:
        """Create a subscription: a receiver is called with the changes at a path and below."""
        path = of.link
        authority, timeout_s = authority_of(request), headers.timeout_s(request)
        authority.insist_on_all(path)
        if f"{path}/".startswith(f"{SUBSCRIPTIONS}/"):
            raise BadRequest(f"path must not be {SUBSCRIPTIONS}: it would report itself")
        user, key = authority.user(), headers.idempotency_key(request)
        raw = bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
        fields = Fields(json.parse_object(raw))
        callback, where = fields.text("callback"), fields.text("where", default="")
        since, given = fields.text("since", default=""), fields.text("secret", default="")
        is_replayed = fields.flag("replayState", default=False)
        before = fields.flag("before", default=False)
        expires_us = fields.whole(EXPIRY, 0, EXPIRY_US_MAX, default=0)
        fields.end()
        if is_replayed and since:
            raise BadRequest("`since` must be left out with `replayState`, which needs none")
        if key and not given:
            raise BadRequest(
                "a generated secret is shown only once: with an Idempotency-Key, send `secret`"
            )
        secret = given or secret_of(secrets.token_bytes(MADE_BYTES))
        key_of(secret)
        caller = self._backend.callbacks
        link = f"{SUBSCRIPTIONS}/{_id_of(user, key) if key else new_id()}"
        about = SubscriptionState(
            path=path, callback=callback, where=where.strip(), before=before, user=user,
            expires_us=expires_us,
            sealed=caller.seal.seal(link, secret), mark=Mark(""),
        )  # fmt: skip
        made = await self._made(request, link, about, secret) if key else None
        if made is not None:
            return made
        await self._insist_on_room(user, timeout_s)
        position = await self._changes.begun(request, path, where, since or "latest")
        await caller.prove(link, callback, secret)
        about = replace(about, mark=Mark(position, Replay() if is_replayed else None))
        state = about.state()
        operation = Operation(
            verb="POST", link=link, body=json.dump(state), signature=json.signature(state),
            principal=authority_of(request).principal,
        )  # fmt: skip
        answer = await self._backend.submit(operation, timeout_s)
        if key and answer.status == 409:  # The same request may have arrived twice.
            made = await self._made(request, link, about, secret)
        if answer.status == 201 and answer.row is not None and not given:
            return self._reply_with_secret(request, answer, answer.row, secret)
        return made or self._reply(request, answer)

    def _reply_with_secret(
        self, request: web.BaseRequest, answer: Answer, row: Row, secret: str
    ) -> Reply:
        reply = self._reply(request, answer)
        page = orjson.loads(document_json(row, KIND)) | {"secret": secret}
        reply.body = encode(page, headers.accepted_media(request))
        reply.head += b"Cache-Control: no-store\r\n"
        return reply

    async def _made(
        self, request: web.BaseRequest, link: str, about: SubscriptionState, secret: str
    ) -> Reply | None:
        """Answer a repeated request; None if there is no subscription yet.

        Raises Conflict if the request differs.
        """
        answer, there = await self._there(request, link)
        if there is None:
            return None
        is_same = all(getattr(there, name) == getattr(about, name) for name in ASKED)
        if not is_same or self._backend.callbacks.seal.open(link, there.sealed) != secret:
            raise Conflict(
                "this Idempotency-Key was used for a different subscription: use another"
            )
        return self._reply(request, answer)

    async def _insist_on_room(self, user: str, timeout_s: float) -> None:
        """Raise TooManySubscriptions unless one more is allowed."""
        if await self._backend.counting(SUBSCRIPTIONS, timeout_s) >= SUBSCRIPTIONS_MAX:
            raise TooManySubscriptions(
                f"there are {SUBSCRIPTIONS_MAX} subscriptions, the most of a group: delete some"
            )
        if not user:
            return
        own = [about for _, about in await self._all(timeout_s) if about.user == user]
        if len(own) >= OF_A_USER_MAX:
            raise TooManySubscriptions(
                f"{user} has {OF_A_USER_MAX} subscriptions, the most of a user: delete some"
            )

    async def _all(self, timeout_s: float) -> list[tuple[Row, SubscriptionState]]:
        """Return all subscriptions of the group, by link."""
        found: list[tuple[Row, SubscriptionState]] = []
        after = ""
        while True:
            page = await self._backend.listing(
                SUBSCRIPTIONS, after=after, limit=SUBSCRIPTIONS_MAX, expand=True,
                timeout_s=timeout_s,
            )  # fmt: skip
            for _, _, row in page.entries:
                about = read_subscription(row.state) if row is not None else None
                if row is not None and about is not None:
                    found.append((row, about))
            after = page.horizon
            if not after:
                return found

    async def _list(
        self, request: web.BaseRequest, at: str, is_wanted: Callable[[SubscriptionState], bool]
    ) -> Reply:
        authority = authority_of(request)

        async def shown(timeout_s: float) -> list[Row]:
            return [
                row
                for row, about in await self._all(timeout_s)
                if is_wanted(about) and authority.runs(about.user, about.path)
            ]

        async def source(after: str, limit: int, timeout_s: float) -> tuple[list[Entry], str]:
            rows = await shown(timeout_s)
            return [(row.link, row.version, row) for row in rows if row.link > after], ""

        async def count(timeout_s: float) -> int:
            return len(await shown(timeout_s))

        return await listed(request, at, KIND, source, count)

    async def _found(self, request: web.BaseRequest, link: str) -> Answer:
        """Return the answer of a read. Raises NotFound, also if the caller may not see it."""
        answer, about = await self._there(request, link)
        if about is None or not authority_of(request).runs(about.user, about.path):
            raise refusal("GET", link)
        return answer

    async def _there(
        self, request: web.BaseRequest, link: str
    ) -> tuple[Answer, SubscriptionState | None]:
        """Return the answer of a read, and the parsed subscription; None if there is none."""
        operation = Operation(verb="GET", link=link)
        answer = await self._backend.submit(operation, headers.timeout_s(request))
        if answer.status >= 500:
            raise Unavailable(answer.detail)
        row = answer.row
        return answer, read_subscription(row.state) if answer.is_success and row else None

    async def patch(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Pause a subscription, or resume it."""
        await self._found(request, link)
        fields = Fields(json.parse_object(patch_in(request, body)))
        kind, why = fields.text("kind"), fields.text("why", default="a client has asked for it")
        fields.end()
        if kind not in CLIENTS:
            detail = f"kind must be one of {', '.join(CLIENTS)}; got {quoted(kind)}"
            raise Malformed(detail)
        if len(why) > WHY_CHARACTERS_MAX:
            raise Malformed(f"why must have at most {WHY_CHARACTERS_MAX} characters")
        change = {"kind": kind} | ({"why": why} if kind == "PauseRequest" else {})
        principal = authority_of(request).principal
        operation = handler_patch(request, link, json.dump(change), principal=principal)
        return await self._submitted(request, SUBSCRIPTIONS, operation)

    async def _delete(self, request: web.BaseRequest, link: str, path: str = "") -> Reply:
        """End a subscription. path: only if it is for this path; "" for any."""
        found = await self._found(request, link)
        about = read_subscription(found.row.state) if found.row is not None else None
        if path and (about is None or about.path != path):
            raise NotFound(f"{path} has no subscription {link}")
        operation = Operation(
            verb="DELETE", link=link, conditions=headers.conditions(request, None),
            key=headers.idempotency_key(request), principal=authority_of(request).principal,
        )  # fmt: skip
        return await self._submitted(request, SUBSCRIPTIONS, operation)

    def _reply(self, request: web.BaseRequest, answer: Answer) -> Reply:
        media = headers.accepted_media(request)
        return self._documents.reply(request, answer, self._service(SUBSCRIPTIONS), media)


def _id_of(user: str, key: str) -> str:
    """Return the id that a user's key always yields."""
    return id_of_key(SUBSCRIPTIONS, f"{user}\0{key}")
