"""What the page costs: `python -m benchmarks.load [--repeats 10]`. Two measurements, both on one machine.

Races: the page's first example prompts, decoded in five ways that take turns, all in one process and with the same
models, settings and seed.

    command_line  each method by itself, as `python -m jakiro bench` decodes, on all cores
    race          the lanes in turns (jakiro/ui/race.py), no page, and from here on with each number of --threads
    beside        the same with a process beside it that counts, without end: what any neighbour costs here
    api           the race asked for over the page's public endpoint
    page          the same by Run live in headless Chromium, which draws the stream

`tokens_per_s` of a lane is its tokens after the first over the seconds of its own rounds (draft, verify, overhead), all
prompts together, by the traces that the page keeps; the ratios are taken turn by turn. `wall_s` is from the
start of the races to their ends, prefill, the inspection between rounds (not on the command line) and the making of
traces included; for `api` and `page` also the rest before the first round (`Pace` of jakiro/ui/stream.py). `identical`
says if all ways gave the same tokens with the same settings.

Largest race: --rounds rounds of --nodes nodes in three lanes (largest.py); at first about as many nodes as can be shown
(`MAX_NODES` of jakiro/traces.py). `prepared`: seconds to make its text for the browser, and this process's
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
from jakiro.traces import MAX_NODES
from jakiro.ui.controls import RACERS
from jakiro.ui.models import Models

SCHEMA = "jakiro-load/1"
NODES = 60  # of a large tree
ROUNDS = MAX_NODES // (2 * NODES + 7)  # in which vanilla has as many tokens as the longest paths, or fewer
WAYS = ("race", "beside", "api", "page")  # of the page; before them the command line

Way = tuple[str, int]  # its name and its CPU threads


def races(ways: Ways, prompts: list[str], threads: Sequence[int], repeats: int) -> dict[str, Any]:
    """Every way on every prompt, again and again; the way that goes first changes."""
    base: Way = ("command_line", torch.get_num_threads())
    order = [base, *((name, count) for count in threads for name in WAYS if name != "page" or ways.chromium)]
    found: dict[Way, list[list[Run]]] = {way: [] for way in order}
    for repeat in tqdm(range(-1, repeats), desc="races", unit="turn", dynamic_ncols=True):
        first = repeat % len(order)
        for name, count in [*order[first:], *order[:first]]:
            with getattr(ways, name)(count) as decode:
                runs = [decode(prompt) for prompt in prompts]
            if repeat >= 0:  # the first turn warms up
                found[name, count].append(runs)
    return {
        "prompts": prompts,
        "max_new_tokens": ways.max_new_tokens,
        "sampling": GREEDY,
        "identical": len({_what(runs) for turns in found.values() for runs in turns}) == 1,
        "lanes": _lanes(found, base),
    }


def _what(runs: list[Run]) -> str:
    """The settings and tokens of runs, to be compared."""
    return json.dumps([[trace.method, trace.settings, trace.tokens] for run in runs for trace in run.traces])


def _lanes(found: dict[Way, list[list[Run]]], base: Way) -> list[dict[str, Any]]:
    """One row for each method and way; ratios are taken turn by turn."""
    speeds = {
        (method, way): [_speed([run.traces[lane] for run in runs]) for runs in turns]
        for lane, method in enumerate(RACERS)
        for way, turns in found.items()
    }
    rows = []
    for (method, way), values in speeds.items():
        name, count = way
        bare = speeds[method, ("race", count)] if name in WAYS else values
        walls = [sum(run.wall_s for run in runs) for runs in found[way]]
        rows.append(
            {
                "method": method,
                "way": name,
                "threads": count,
                "tokens_per_s": _middle(values),
                "over_command_line": _middle(_ratios(values, speeds[method, base])),
                "over_race": _middle(_ratios(values, bare)),
                "wall_s": _middle(walls),  # of all lanes
            }
        )
    return rows


def _ratios(values: list[float], others: list[float]) -> list[float]:
    return [value / other for value, other in zip(values, others, strict=True)]


def _middle(values: list[float]) -> dict[str, Any]:
    return {"median": median(values), "all": values}


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
            ways = Ways(models.get(), library, address, chromium, options.max_new_tokens)
            target = ways.loaded.target
            raced = races(ways, prompts, options.threads, options.repeats)
        head = common.head(SCHEMA, target.device, **browsing.versions(chromium))
        del head["machine"]["threads"]  # each lane has its own
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
            "threads": str(row["threads"]),
            "tokens/s": common.cell(row["tokens_per_s"]["median"], 1),
            "over the command line": common.cell(row["over_command_line"]["median"], 3),
            "over the race without a page": common.cell(row["over_race"]["median"], 3),
            "wall s of all lanes": common.cell(row["wall_s"]["median"]),
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
    cores = use_threads()
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id of a target with its heads")
    parser.add_argument("--prompts", type=positive, default=3, help="of the page's examples (default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=at_least(2), default=96, help="of an answer (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=10, help="of each way (default: %(default)s)")
    parser.add_argument(
        "--threads",
        type=positive,
        nargs="+",
        default=sorted({max(1, cores - 1), cores}),
        help="CPU threads of the page, one after another (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="of the largest race (default: %(default)s)")
    parser.add_argument("--nodes", type=positive, default=NODES, help="of its trees (default: %(default)s)")
    parser.add_argument("--visits", type=positive, default=5, help="to it (default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
