"""What the browser fetches besides Gradio's own files. All of it comes from this server: nothing from elsewhere.

viewer/<version>/<file>  the viewer's modules (modules.py)
plotly/<file>            plotly.js, the version in its name
races/<id>.json          a race prepared for drawing (library.py, replay.py)
races/<id>/<export>      a race as a file (export.py)
races/<id>/cut/<lane>.json  its trees with the nodes that were cut (replay.py)
races/<id>/compare/<lane>/<other>.json  two lanes compared (comparing.py), or null
races (POST)             a file of traces; the answer is {"id"} of the race that it becomes, or {"error"}
models.json              whether live races can be run
benchmarks.json          what was measured, prepared for drawing (benchmarks.py)
"""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from jakiro import assets
from jakiro.trace import TraceError, as_text
from jakiro.traces import MAX_BYTES, read_traces
from jakiro.ui.benchmarks import payload
from jakiro.ui.export import EXPORTS
from jakiro.ui.library import Library, StillRunning, pack
from jakiro.ui.models import Models, RequestError
from jakiro.ui.modules import Modules
from jakiro.ui.replay import cut_figure

PLOTLY = f"plotly/{assets.PLOTLY.name}"
BODIES = 4  # files of traces that are held at once: each may have MAX_BYTES, and as text take four times that
SMALL = 1 << 20  # bytes of a file that waits for no other
LARGE = 2  # races that are prepared, and exports that are made, at once: each may take seconds, and a hundred MB
OPENED = 16  # races that are opened at once and have to be prepared or waited for: each holds a thread, of forty
PART = 1 << 18  # bytes of an answer that are held for a client which reads slowly
SILENT = 15.0  # seconds without anything of a file, after which it is not waited for
ARRIVING = 120.0  # seconds in which a file must have arrived: until then it keeps another from being read
LEAVING = ("upload", "process_recording", "component_server", "component_server/", "deep_link")  # files: Gradio's ways
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}  # the version is in the address


class Lane(IntegerConvertor):
    """Of so few digits that Python reads it."""

    regex = "[0-9]{1,9}"


register_url_convertor("lane", Lane())


def routes(modules: Modules, library: Library, models: Models, benchmarks: Path) -> list[BaseRoute]:
    """Routes for FastAPI, before Gradio's own."""
    few = threading.Semaphore(LARGE)

    @contextmanager
    def prepared() -> Iterator[None]:
        with few, models.quiet():
            yield

    async def module(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in modules.compressed:
            return PlainTextResponse(f"no module {name[:40]!r}", status_code=404)
        return _script(modules.compressed[name])

    def race(request: Request) -> Response:
        return _packed(request, library.packed(request.path_params["id"], prepared), "application/json")

    async def opened(request: Request) -> Response:
        if packed := library.made(request.path_params["id"]):
            return _packed(request, packed, "application/json")
        return await later(request)

    def export(request: Request) -> Response:
        id, name = request.path_params["id"], request.path_params["name"]
        if name not in EXPORTS:
            return PlainTextResponse(f"no export {name[:40]!r}; there are {', '.join(EXPORTS)}", status_code=404)
        media, make = EXPORTS[name]
        traces, facts = library.traces(id), library.about(id) | {"compared": library.comparisons(id)}
        with models.quiet():
            packed = pack(make(traces, facts))
        return _packed(request, packed, media, **{"Content-Disposition": f'attachment; filename="{id}-{name}"'})

    def cut(request: Request) -> Response:
        _, [trace] = library.chosen(request.path_params["id"], request.path_params["lane"])
        with models.quiet():
            return _packed(request, pack(cut_figure(trace)), "application/json")

    def compared(request: Request) -> Response:
        try:
            text = library.comparison(*(request.path_params[name] for name in ("id", "lane", "other")))
        except RequestError:
            text = "null"
        return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def nowhere(request: Request) -> Response:
        return PlainTextResponse("nothing is left here but traces: files of traces go to /races", status_code=404)

    for first in library.opening():  # what every first visit needs, made before there is one
        library.packed(first)
    _compressed()
    large, later = asyncio.Semaphore(LARGE), _in_turn(_worded(race), asyncio.Semaphore(OPENED))
    return [
        Route(f"/{modules.path}/{{name}}", module),
        Route(f"/{PLOTLY}", lambda request: _script(_compressed())),
        Route("/races/{id}.json", opened),
        Route("/races/{id}/cut/{lane:lane}.json", _in_turn(_worded(cut), large)),
        Route("/races/{id}/compare/{lane:lane}/{other:lane}.json", compared),
        Route("/races/{id}/{name}", _in_turn(_worded(export), large)),
        Route("/races", _opening(library, models), methods=["POST"]),
        *(Route(f"/gradio_api/{way}", nowhere, methods=["GET", "POST"]) for way in LEAVING),
        Route("/models.json", lambda request: JSONResponse(models.status(), headers={"Cache-Control": "no-store"})),
        Route("/benchmarks.json", _measured(models, benchmarks)),
    ]


def _worded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """`answer`, which says why where it cannot: a race that is not over (409), not there or not to be read (404)."""

    def worded(request: Request) -> Response:
        try:
            return answer(request)
        except StillRunning as error:
            return PlainTextResponse(str(error), status_code=409)
        except (RequestError, TraceError, OSError) as error:
            return PlainTextResponse(str(error), status_code=404)

    return worded


def _in_turn(answer: Callable[[Request], Response], few: asyncio.Semaphore) -> Callable[[Request], Awaitable[Response]]:
    """`answer`, of which only a few are made at once; who waits holds no thread."""

    async def waiting(request: Request) -> Response:
        async with few:
            return await run_in_threadpool(answer, request)

    return waiting


def _opening(library: Library, models: Models) -> Callable[[Request], Awaitable[Response]]:
    """What takes a file of traces."""
    bodies = asyncio.Semaphore(BODIES)
    reading = asyncio.Lock()  # one file at a time: reading a large one takes seconds

    def kept(text: str) -> str:
        with models.quiet():
            traces = read_traces(text)
        id = library.add(traces)
        models.settle()
        return id

    async def opened(request: Request) -> Response:
        if request.headers.get("sec-fetch-site") == "cross-site":  # nothing for pages of others to do
            return PlainTextResponse("traces are taken from this page, and from programs", status_code=403)
        try:
            size = request.headers.get("content-length", "")
            _sized(size)
            small = size.isdecimal() and int(size) <= SMALL
            async with nullcontext() if small else bodies:
                text = await asyncio.wait_for(_text(request), ARRIVING)
                async with reading:
                    return JSONResponse({"id": await run_in_threadpool(kept, text)})
        except asyncio.TimeoutError:
            return JSONResponse({"error": "the file has not arrived in time: try again"})
        except ClientDisconnect:  # a tab that was closed: nobody reads the answer, and nothing is wrong
            return Response(status_code=400)
        except TraceError as error:
            return JSONResponse({"error": str(error)})  # a status of 400 would be an error of the page in its console

    return opened


def _measured(models: Models, folder: Path) -> Callable[[Request], Response]:
    """What gives the reports of a folder and what the page has tuned, made anew where either has changed."""
    kept: tuple[Any, bytes] = (None, b"")

    def measured(request: Request) -> Response:
        nonlocal kept
        tunings = models.tunings()
        known = str(tunings), sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.json"))
        if kept[0] != known:
            with models.quiet():
                kept = known, pack(payload(folder, tunings))
        return _packed(request, kept[1], "application/json")

    return measured


async def _text(request: Request) -> str:
    """The body. Raises TraceError where there is more of it than may be read, or where it is no text."""
    body, stream = bytearray(), request.stream()
    while (chunk := await asyncio.wait_for(anext(stream, None), SILENT)) is not None:
        body += chunk
        _sized(len(body))
    return as_text(bytes(body))


def _sized(bytes: int | str) -> None:
    """Raises TraceError where there is more than may be read, or is said to be."""
    if str(bytes).isdecimal() and int(str(bytes)[:20]) > MAX_BYTES:
        raise TraceError(f"the file has more than {MAX_BYTES:,} bytes, which is what can be read: record fewer runs")


def prepare_all(library: Library, models: Models) -> None:
    """Every recorded race, when the models are there, so that none is prepared beside somebody's live race. One that
    cannot be read says so where it is chosen."""
    with suppress(RequestError):
        models.get()
    for race in library.recorded:
        with suppress(RequestError, TraceError, OSError):
            library.packed(race, models.quiet)


def _packed(request: Request, packed: bytes, media: str, **headers: str) -> Response:
    """What is compressed already: Gradio would do so in the one thread that serves all. Who has it gets it once."""
    tag = f'W/"{packed[-8:].hex()}"'  # gzip ends with a checksum of what it holds, and how long that is
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding", "ETag": tag} | headers
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    whole = BytesIO(packed)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(packed))}
    else:
        whole = gzip.GzipFile(fileobj=whole)
    return StreamingResponse(iter(lambda: whole.read(PART), b""), media_type=media, headers=headers)


def _script(compressed: bytes) -> Response:
    headers = _FOR_EVER | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(compressed, media_type="text/javascript", headers=headers)


@cache
def _compressed() -> bytes:
    """plotly.js, compressed once instead of at every visit."""
    return gzip.compress(assets.PLOTLY.read_bytes(), compresslevel=6)
