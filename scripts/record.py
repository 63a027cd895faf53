"""Record the races that the page opens with: `python -m scripts.record`. Every example, three methods, one target.

The traces are what the embedded models really do on the machine at hand, made by the same loop as a live race.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from jakiro.assets import ASSETS, TARGET, TRACES
from jakiro.bench import load_methods
from jakiro.engine import record
from jakiro.target import Target
from jakiro.text import encode
from jakiro.trace import Trace
from jakiro.ui import recorded
from jakiro.verify import Sampling

METHODS = ("vanilla", "eagle2", "jakiro")
RUNS = 5  # of each method, in turns; the one that took the median time is kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out", type=Path, default=TRACES)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    options = parser.parse_args()
    target = Target.load(options.target, options.device, options.dtype)
    methods = load_methods(target, METHODS, {})
    for example in json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8")):
        ids = encode(target.tokenizer, example["prompt"])
        runs = [  # the first of a method pays for what torch sets up
            [
                record(target, make(settings), ids, options.max_new_tokens, Sampling(), name, settings)
                for name, (make, settings) in methods.items()
            ]
            for _ in range(1 + RUNS)
        ]
        traces = [sorted(own, key=decode_seconds)[RUNS // 2] for own in zip(*runs[1:], strict=True)]
        race = recorded.save(options.out, example["label"].lower(), example["label"], example["prompt"], traces)
        print(race.id, len(traces[0].tokens), "tokens")


def decode_seconds(trace: Trace) -> float:
    return sum(step.seconds for step in trace.steps)


if __name__ == "__main__":
    main()
