"""Start the page: `python app.py`. Importing this file neither launches anything nor loads a model."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jakiro.assets import TRACES
from jakiro.commands.arguments import how_to_load, model_options
from jakiro.commands.checks import in_words

if TYPE_CHECKING:
    from gradio import Blocks

LOG = logging.getLogger(__name__)
OPTIONS = "JAKIRO_OPTIONS"  # environment variable with options, for where there is no command line, as on a Space
PORT = "GRADIO_SERVER_PORT"  # and one with the port
MAX_THREADS = 1024
ENDING = 1.0  # seconds for answers under way when the page is told to end
SPACE = "SPACE_ID"  # environment variable of Hugging Face Spaces: there the browser is on another machine


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line, or `argv`. It goes before what the environment says."""
    about = "A visual debugger for Jakiro, EAGLE-2 and vanilla decoding."
    parser = argparse.ArgumentParser(description=about, parents=[model_options()])
    parser.add_argument(
        "--threads",
        type=int,
        help="CPU threads of the models (default: of more than two cores all but one; on a Space all)",
    )
    parser.add_argument(
        "--traces", type=Path, default=TRACES, help="folder of recorded races to open with (default: those that ship)"
    )
    parser.add_argument("--host", default=None, help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=None, help="port to listen on (default: 7860 or the next free one)")
    given = sys.argv[1:] if argv is None else argv
    try:
        options = parser.parse_args([*shlex.split(os.environ.get(OPTIONS, "")), *given])
    except ValueError as error:
        parser.error(f"{OPTIONS} in the environment cannot be read ({error}): close what is quoted")
    if options.threads is not None and not 1 <= options.threads <= MAX_THREADS:
        parser.error(f"--threads takes a whole number from 1 to {MAX_THREADS}")
    port = os.environ.get(PORT, "7860") if options.port is None else str(options.port)
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        parser.error(f"{PORT if options.port is None else '--port'} takes a number from 1 to 65535")
    if not all(all(head.partition("=")) for head in options.head):
        parser.error("--head takes METHOD=DIR, for example --head jakiro=heads/jakiro")
    return options


def gpu_decorator() -> Callable | None:
    """`spaces.GPU` on a Hugging Face Space that lends a GPU per call, else None. Call it before torch is imported."""
    if importlib.util.find_spec("spaces") is None:
        return None
    import spaces

    return spaces.GPU if spaces.config.Config.zero_gpu else None


def main(argv: Sequence[str] | None = None) -> None:
    """Open the page on recorded races while the models load. Bad input ends it with a line that says what to do,
    an interrupt, as from Ctrl-C, with none."""
    options = arguments(argv)
    try:
        serve(options)
    except (ValueError, OSError) as error:
        sys.exit(f"app.py: {in_words(error)}")
    except KeyboardInterrupt:
        sys.exit(130)


def check_host(host: str) -> None:
    """Raise OSError for an address that is not of this machine, on which Gradio would try every port."""
    try:
        family, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as one:
            one.bind(address)
    except (OSError, UnicodeError) as error:
        raise OSError(f"nothing can listen on {host}: it is no address of this machine; name another") from error


def serve(options: argparse.Namespace) -> None:
    """Launch the page and wait for its end. Raises ValueError or OSError where it cannot be opened."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    gpu = gpu_decorator() if options.device != "cpu" else None

    from jakiro.machine import use_threads
    from jakiro.methods import meet
    from jakiro.models.loading import check_request
    from jakiro.target import Target
    from jakiro.ui import page, site
    from jakiro.ui.library import Library
    from jakiro.ui.models import Models

    if not options.traces.is_dir():
        raise FileNotFoundError(f"there is no folder {options.traces}: give --traces one that recorded races are in")
    heads = dict(head.split("=", 1) for head in options.head)  # of one method the last counts
    for flag, given in [("--target", options.target), *((f"--head {name}", head) for name, head in heads.items())]:
        named = Path(os.path.expanduser(given))
        if not named.exists() and (named.is_absolute() or len(named.parts) != 2):
            raise FileNotFoundError(f"there is no folder {given}: give {flag} a model's, or a hub id (owner/name)")
    check_request(options.device, options.dtype, options.attention, options.compile)
    host = (options.host or os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")).strip("[]")
    check_host(host)
    name = f"[{host}]" if ":" in host else host  # as Gradio wants an address of IPv6
    use_threads(options.threads, spare=0 if SPACE in os.environ else 1)
    meet(heads)
    models = Models(lambda: Target.load(options.target, heads=heads, **how_to_load(options)))
    library = Library(options.traces)
    if not library.opening():
        remedy = f"python -m scripts.record --out {options.traces}"
        missing = "no recorded races in %s, so the page opens without: record some with: %s (docs/trace.md: the format)"
        LOG.warning(missing, options.traces, remedy)
    demo = page.build(models, library, gpu)
    launched = page.options(models, library) | {"server_name": name, "server_port": options.port}
    try:
        demo.launch(**launched, prevent_thread_lock=True)
    except OSError as error:
        port = options.port or os.environ.get(PORT, "7860 or one of the next")
        where = f"{host}, port {port}"
        raise OSError(f"nothing can listen on {where}: in use, or not of this machine; name another") from error
    print(f"Jakiro Debugger: {demo.local_url}", flush=True)
    models.start()
    threading.Thread(target=site.prepare_all, args=(library, models), name="races", daemon=True).start()
    wait(demo)


def wait(demo: Blocks) -> None:
    """Until an interrupt, and then for answers under way, but no longer: an open page listens for as long as it is."""
    with suppress(KeyboardInterrupt):  # another one while connections end
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(0.1)
        demo.server.should_exit = True
        demo.server.thread.join(ENDING)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a container's first process would not end by it
    main()
    os._exit(0)  # Python would end a thread in the middle of a race inside torch's C++, which aborts the process
