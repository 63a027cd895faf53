"""What is asked of the page is small, and what is larger is not read: Gradio would read any JSON of any size, and copy
it, in the one thread that serves all, where 36 MB of empty lists take two minutes and 3 GB."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST = 1 << 20  # bytes: a prompt of as many characters as are read, in JSON
FILES = "/races"  # where files of traces go, which have limits of their own (site.py)


class Small:
    """ASGI middleware that reads no more than so much of what is sent to anything but FILES."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def part() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST:
                raise HTTPException(413, f"more than {MOST:,} bytes, which is what can be asked: shorten the prompt")
            return message

        asked = scope["type"] == "http" and scope["path"] != FILES
        await self._app(scope, part if asked else receive, send)
