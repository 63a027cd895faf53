"""A script that runs before all others of the page: what Gradio is told to put into the head comes after its own.

Gradio's loading sign counts its time on, frame by frame, when it has long gone (6.31): a tenth of a core, for nothing.
It keeps the function that asks for a frame as it finds it at first. It finds ours, which gives it one a second from
when the page is there (`THERE`).

The page is compressed here, too: Gradio compresses only what is named like a file. And Gradio is not told what stands
behind the `?` of its address, which is the viewer's: of `?page=foo` it would look for a page foo, and fail over it.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

THERE = "dispatchEvent(new Event('jakiro-there'));"
_SCRIPT = b"""<script>{
  const frame = requestAnimationFrame;
  let there = false;
  window.requestAnimationFrame = (draw) => (there ? setTimeout(frame, 1000, draw) : frame(draw));
  addEventListener('jakiro-there', () => { there = true; window.requestAnimationFrame = frame; }, {once: true});
}</script>"""


class Early:
    """ASGI middleware that puts the script first into the head of the page, and compresses it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._page = app, GZipMiddleware(self._scripted, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/":
            scope["query_string"] = b""
        page = scope["type"] == "http" and scope["method"] == "GET" and scope["path"].endswith("/")
        await (self._page if page else self._app)(scope, receive, send)

    async def _scripted(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: list[Message] = []

        async def put(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.append(message)  # the body, which comes next, decides how long it is
                return
            if start:
                text = message["body"].replace(b"<head>", b"<head>" + _SCRIPT, 1)
                headers = MutableHeaders(scope=start[0])
                if "content-length" in headers:
                    headers["content-length"] = str(int(headers["content-length"]) + len(text) - len(message["body"]))
                message["body"] = text
                await send(start.pop())
            await send(message)

        await self._app(scope, receive, put)
