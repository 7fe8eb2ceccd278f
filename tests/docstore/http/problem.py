"""Checks that apply to every problem response."""

from pathlib import Path
from typing import Any

import aiohttp

LEAKS = (
    "Traceback",
    'File "',
    "SELECT ",
    str(Path(__file__).resolve().parents[3]),
    "site-packages",
    "Error(",
)


async def problem_of(response: aiohttp.ClientResponse, status: int) -> dict[str, Any]:
    """Check that a response is a problem with the expected status; return its body."""
    text = await response.text()
    assert response.status == status, (response.status, text)
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = await response.json()
    assert body["status"] == body["statusCode"] == status
    assert body["type"].endswith("/" + body["errorCode"])
    assert body["title"]
    assert body["detail"] == body["message"]
    assert body["instance"].startswith("/")
    assert body["documentKind"]
    assert body["outcome"] in ("not_applied", "unknown")
    assert not any(leak in text for leak in LEAKS), text
    assert len(text) < 2048
    if status in (429, 503):
        assert int(response.headers["Retry-After"]) >= 0
    return body
