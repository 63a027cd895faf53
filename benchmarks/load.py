"""What the page costs: `python -m benchmarks.load [--repeats 10]`. Two measurements, both on one machine.

Races: the page's first example prompts, decoded in five ways that take turns, all in one process and with the same
models, settings and seed.

    command_line  each method by itself, as `python -m jakiro bench` decodes
    race          the lanes in turns (jakiro/ui/race.py), no page, and from here on with the page's threads
    beside        the same with a process beside it that counts, without end: what any neighbour costs here
    api           the race asked for over the page's public endpoint
    page          the same by Run live in headless Chromium, which draws the stream

`tokens_per_s` of a lane is its tokens after the first over the seconds of its own rounds (draft, verify, overhead), all
prompts together, by the traces that the page keeps; the ratios are of medians over the repeats. `wall_s` is from the
start of the races to their ends, prefill, the inspection between rounds (not on the command line) and the making of
traces included; for `api` and `page` also the last wait of the stream, 0.05 s a prompt at most. `identical` says if
all ways gave the same tokens with the same settings.

Largest race: --rounds rounds of --nodes nodes in three lanes (largest.py); at first as many nodes as a live race may
have (`MAX_NODES` of jakiro/ui/race.py). `prepared`: seconds to make its text for the browser, and this process's
bytes in RAM before, at their peak and after. `shown`: on a server started anew, first screens (`first_ms`, as in
scrub.py; the first visit waits for the text to be made), the browser's JavaScript heap, this process's memory.

Without Chromium on the PATH what needs it is left out, and `browser` says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import browsing, common
from benchmarks.largest import largest
from benchmarks.ways import GREEDY, Run, Watched, Ways
from jakiro import metrics
from jakiro.assets import TARGET, TRACES
from jakiro.commands.arguments import at_least, positive
from jakiro.machine import use_threads
from jakiro.measuring.prompts import examples
from jakiro.target import Target
from jakiro.trace import Trace
from jakiro.ui.models import Models
from jakiro.ui.page import RACERS
from jakiro.ui.race import MAX_NODES

SCHEMA = "jakiro-load/1"
NODES = 60  # of a large tree
WAYS = ("command_line", "race", "beside", "api", "page")


def races(ways: Ways, prompts: list[str], repeats: int) -> dict[str, Any]:
    """Every way on every prompt, again and again; the way that goes first changes."""
    names = [name for name in WAYS if name != "page" or ways.chromium]
    found: dict[str, list[list[Run]]] = {name: [] for name in names}
    for repeat in tqdm(range(-1, repeats), desc="races", unit="turn", dynamic_ncols=True):
        first = repeat % len(names)
        for name in [*names[first:], *names[:first]]:
            with getattr(ways, name)() as decode:
                runs = [decode(prompt) for prompt in prompts]
            if repeat >= 0:  # the first turn warms up
                found[name].append(runs)
    walls = {name: [sum(run.wall_s for run in runs) for runs in turns] for name, turns in found.items()}
    return {
        "prompts": prompts,
        "max_new_tokens": ways.max_new_tokens,
        "sampling": GREEDY,
        "threads": ways.threads,
        "identical": len({_what(runs) for turns in found.values() for runs in turns}) == 1,
        "wall_s": {name: {"median": median(times), "all": times} for name, times in walls.items()},
        "lanes": _lanes(found),
    }


def _what(runs: list[Run]) -> str:
    """The settings and tokens of runs, to be compared."""
    return json.dumps([[trace.method, trace.settings, trace.tokens] for run in runs for trace in run.traces])


def _lanes(found: dict[str, list[list[Run]]]) -> list[dict[str, Any]]:
    """One row for each method and way."""
    speeds = {
        (method, way): [_speed([run.traces[lane] for run in runs]) for runs in turns]
        for lane, method in enumerate(RACERS)
        for way, turns in found.items()
    }
    middle = {key: median(values) for key, values in speeds.items()}
    return [
        {
            "method": method,
            "way": way,
            "tokens_per_s": {"median": middle[method, way], "all": values},
            "over_command_line": middle[method, way] / middle[method, "command_line"],
            "over_race": middle[method, way] / middle[method, "race"],
        }
        for (method, way), values in speeds.items()
    ]


def _speed(traces: list[Trace]) -> float:
    """Tokens after the first over the seconds of the rounds, all traces together."""
    seconds = sum(sum(metrics.seconds(trace).values()) for trace in traces)
    return sum(len(trace.tokens) - 1 for trace in traces) / seconds


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Serve, race, show."""
    prompts = [prompt.text for prompt in examples(options.prompts)]
    with _browser() as chromium:
        found = largest(chromium, options.rounds, options.nodes, options.visits)
        models, library = Models(lambda: Target.load(options.target, options.device, options.dtype)), Watched(TRACES)
        with browsing.launched(models, library) as address:
            threads = {"command_line": torch.get_num_threads(), "page": use_threads(options.threads, spare=1)}
            ways = Ways(models.get(), library, address, chromium, options.max_new_tokens, threads)
            target = ways.loaded.target
            raced = races(ways, prompts, options.repeats)
        head = common.head(SCHEMA, target.device, **browsing.versions(chromium))
        missing = None if chromium else browsing.NO_BROWSER
    body = {"target": target.name, "dtype": options.dtype, "browser": missing or "headless Chromium"}
    return head | body | {"races": raced, "largest": found}, [_raced(raced), _large(found)]


@contextlib.contextmanager
def _browser() -> Iterator[browsing.Browser | None]:
    """Chromium, where there is one."""
    if browsing.CHROMIUM:
        with browsing.browser() as chromium:
            yield chromium
    else:
        print(f"{browsing.NO_BROWSER}: what needs it is left out", file=sys.stderr)
        yield None


def _raced(raced: dict[str, Any]) -> common.Table:
    return [
        {
            "lane": row["method"],
            "way": row["way"],
            "tokens/s": common.cell(row["tokens_per_s"]["median"], 1),
            "over the command line": common.cell(row["over_command_line"], 3),
            "over the race without a page": common.cell(row["over_race"], 3),
            "wall s of all lanes": common.cell(raced["wall_s"][row["way"]]["median"]),
        }
        for row in raced["lanes"]
    ]


def _large(found: dict[str, Any]) -> common.Table:
    """A line for what the server does, and one for every visit."""
    made = found["prepared"]
    blank = dict.fromkeys(("lanes ms", "tree ms", "plotly ms", "JS heap MiB"), "")
    lines = [{"largest race": "prepared", "seconds": common.cell(made["seconds"])} | blank]
    lines[0]["server MiB"] = common.cell(made["resident_bytes"]["after"], 0, 2**-20)
    for number, visit in enumerate(found["shown"]["visits"] if found["shown"] else [], start=1):
        first = {f"{name} ms": common.cell(ms, 0) for name, ms in visit["first_ms"].items()}
        heap = common.cell(visit["js_heap_bytes"], 1, 2**-20)
        lines.append({"largest race": f"visit {number}", "seconds": "", **first, "JS heap MiB": heap, "server MiB": ""})
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("load", __doc__)
    common.add_device(parser)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id of a target with its heads")
    parser.add_argument("--prompts", type=positive, default=3, help="of the page's examples (default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=at_least(2), default=96, help="of an answer (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=10, help="of each way (default: %(default)s)")
    parser.add_argument("--threads", type=positive, help="CPU threads of the page (default: as app.py, all but one)")
    parser.add_argument(
        "--rounds",
        type=positive,
        default=MAX_NODES // (2 * NODES + 1),
        help="of the largest race (default: %(default)s)",
    )
    parser.add_argument("--nodes", type=positive, default=NODES, help="of its trees (default: %(default)s)")
    parser.add_argument("--visits", type=positive, default=5, help="to it (default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
