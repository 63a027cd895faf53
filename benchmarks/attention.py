"""Attention of a tree's tokens over a text, ours and torch's: `python -m benchmarks.attention --device cuda`.

Random queries, keys and values of some models' shapes under an additive mask, over several numbers of rows. `torch_s`
is `scaled_dot_product_attention` as transformers calls it there, which repeats keys that heads share; `own_s` is
`attend` (jakiro/models/attention.py). Medians of one call; where the device records programs, of a recorded one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import common
from jakiro.commands.arguments import positive
from jakiro.measuring.limits import timed
from jakiro.models.attention import attend
from jakiro.models.loading import DTYPES, check_request, choose_kernels
from jakiro.programs import record, replayable

SCHEMA = "jakiro-attention/1"
SHAPES = {"chat-31m": (9, 3, 64), "llama-2-7b": (32, 32, 128), "llama-3-8b": (32, 8, 128)}  # heads, key heads, width
CALLS = 20  # in one program
TURNS = 10


def torchs(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """What transformers does where keys are shared and there is a mask."""
    keys, values = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (keys, values))
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)


@torch.inference_mode()
def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Time both for every shape, number of queries and of rows."""
    check_request(options.device, options.dtype)
    device, dtype = torch.device(options.device), DTYPES[options.dtype]
    choose_kernels(device)
    cases = [(name, n, rows) for name in SHAPES for n in options.queries for rows in options.rows]
    found = []
    for name, count, rows in tqdm(cases, desc="attention", unit="case", dynamic_ncols=True):
        heads, shared, width = SHAPES[name]
        sizes = [(1, heads, count, width), (1, shared, rows, width), (1, shared, rows, width), (count, rows)]
        given = [torch.randn(size, dtype=dtype, device=device) for size in sizes]
        row = {"shape": name, "queries": count, "rows": rows}
        found.append(row | {f"{way}_s": seconds(device, work, given) for way, work in WAYS.items()})
    table = [{name: _cell(value) for name, value in row.items()} for row in found]
    return common.head(SCHEMA, device) | {"dtype": options.dtype, "rows": found}, [table]


def seconds(device: torch.device, work: Callable[..., Tensor], given: list[Tensor]) -> float:
    """One call of `work`."""
    if not replayable(device):
        return median(timed(device, lambda: work(*given), TURNS))
    program = record(lambda: [work(*given) for _ in range(CALLS)], device)
    return median(timed(device, program, TURNS)) / CALLS


def _cell(value: Any) -> str:
    return common.cell(value, 1, 1e6) + " us" if isinstance(value, float) else str(value)


WAYS = {"torch": torchs, "own": attend}


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("attention", __doc__)
    common.add_device(parser)
    parser.add_argument("--queries", type=positive, nargs="+", default=[1, 10, 60], help="(default: %(default)s)")
    rows = "of the cache (default: %(default)s)"
    parser.add_argument("--rows", type=positive, nargs="+", default=[256, 1024, 2048], help=rows)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
