"""The arguments of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jakiro.assets import TARGET, TEMPLATES

DESCRIPTION = "Decode, look, measure and train"
RECIPES = Path(__file__).parent.parent / "training" / "recipes"
EXPERIMENTS = ("decoupling", "decoupling-passes", "decoupling-published", "losses")
MEASURED = ("vanilla", "eagle2", "jakiro")  # and what --head names
DEVICE = "cpu, cuda, cuda:1, mps or xpu (default: %(default)s)"
MOST = 10**9  # of anything that an option counts


def at_least(low: int) -> Callable[[str], int]:
    """The type of an option that is a whole number of at least `low`, and of at most MOST."""

    def read(text: str) -> int:
        digits = text.lstrip("0") or "0"  # Python reads no number of thousands of them
        if not text.isdecimal() or not low <= int(digits[:20]) <= MOST:
            raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number of at least {low} and at most {MOST}")
        return int(digits)

    return read


positive = at_least(1)


def file_or_name(what: str, folder: Path, ending: str, names: Sequence[str] = ()) -> Callable[[str], Path]:
    """The type of an option that is a file, or the name of one that ships in `folder`; of `names` where some are given.

    A file goes before what ships.
    """

    def read(text: str) -> Path:
        path = Path(text)
        if path.exists() and not path.is_dir():
            return path
        known = names or sorted(file.name.removesuffix(ending) for file in folder.glob(f"*{ending}"))
        if text not in known:
            all_ = ", ".join(known)
            raise argparse.ArgumentTypeError(f"there is no file {text}: give {what}, or one that ships: {all_}")
        return folder / f"{text}{ending}"

    return read


template_file = file_or_name("a Jinja file", TEMPLATES, ".jinja")
recipe_file = file_or_name("a JSON file", RECIPES, ".json")
experiment_file = file_or_name("a JSON file", RECIPES, "-cpu.json", EXPERIMENTS)


def ask_for_template(parser: argparse.ArgumentParser) -> None:
    """How the target is asked."""
    names = " or ".join(sorted(file.stem for file in TEMPLATES.glob("*.jinja")))
    help_ = f"Jinja file in place of the tokenizer's own, or {names}, which ship"
    parser.add_argument("--chat-template", type=template_file, metavar="FILE", help=help_)
    told = "system message before every prompt; published heads were often trained with one"
    parser.add_argument("--system", metavar="TEXT", help=told)


def model_options() -> argparse.ArgumentParser:
    """What every program that runs a target asks for, as a parent of its parser."""
    model = argparse.ArgumentParser(add_help=False)
    causal = "folder or hub id of a Hugging Face causal LM (default: the embedded model)"
    model.add_argument("--target", type=Path, default=TARGET, help=causal)
    heads = "a trained head, or draft_model=DIR a small model of the same tokenizer: folder or hub id; repeatable; "
    heads += "eagle2-mine=DIR is a second head of eagle2, and a method beside it"
    model.add_argument("--head", action="append", default=[], metavar="METHOD=DIR", help=heads)
    model.add_argument("--device", default="cpu", help=DEVICE)
    dtypes = "float32, bfloat16, float16 or float64 (default: %(default)s)"
    model.add_argument("--dtype", default="float32", help=dtypes)
    model.add_argument("--attention", metavar="NAME", help="sdpa or eager (default: what the model has, sdpa first)")
    ask_for_template(model)
    model.add_argument(
        "--no-graphs", dest="graphs", action="store_false", help="without CUDA graphs, on a CPU without tapes"
    )
    fewer = "layers and drafts by torch.compile (CUDA only; some seconds for each shape, up to a minute the first time)"
    model.add_argument("--compile", action="store_true", help=fewer)
    return model


def how_to_load(options: argparse.Namespace) -> dict[str, Any]:
    """What `Target.load` is told of the model options besides folder and heads."""
    named = ("device", "dtype", "attention", "graphs", "compile", "chat_template", "system")
    return {name: getattr(options, name) for name in named}


def parser() -> argparse.ArgumentParser:
    """Of all commands; `command` says which one was given."""
    whole = argparse.ArgumentParser(prog="python -m jakiro", description=DESCRIPTION)
    commands = whole.add_subparsers(dest="command", required=True)

    def command(name: str, says: str, **more: Any) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=says, description=f"{says[0].upper()}{says[1:]}.", **more)

    model = model_options()

    chosen = argparse.ArgumentParser(add_help=False)
    help_ = "a setting, as depth=6, for every method that has it; repeatable; docs/words.md lists them"
    chosen.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=help_)

    heat = {"type": float, "default": 0.0, "help": "0, the default, is greedy"}
    mass = {"type": float, "default": 1.0, "help": "above 0 and up to 1, the default, which keeps all tokens"}

    decoding = argparse.ArgumentParser(add_help=False, parents=[model, chosen])
    decoding.add_argument(
        "--max-new-tokens", type=positive, default=128, help="tokens of an answer (default: %(default)s)"
    )
    decoding.add_argument("--top-p", **mass)
    decoding.add_argument(
        "--seed", type=int, default=0, help="the same seed gives the same text with every method (default: 0)"
    )
    decoding.add_argument("--out", type=Path, required=True, help="file to write")

    asking = argparse.ArgumentParser(add_help=False)
    lines = """files whose lines are {"turns": ["question"]} (default: the page's examples)"""
    asking.add_argument("--prompts", type=Path, nargs="+", default=[], metavar="FILE.jsonl", help=lines)
    first = "prompts of each file (default: all; where a tree is measured, on 12 of them at most)"
    asking.add_argument("--limit", type=positive, help=first)

    one = command("trace", "decode one prompt and write its trace", parents=[decoding])
    known = "vanilla, prompt_lookup, token_recycling, draft_model, eagle2, eagle3, jakiro"
    one.add_argument("--method", required=True, help=known)
    one.add_argument("--prompt", required=True, metavar="TEXT", help="what the target is asked")
    one.add_argument("--temperature", **heat)

    recorded = argparse.ArgumentParser(add_help=False)
    recorded.add_argument("files", type=Path, nargs="+", metavar="trace.json", help="files of one or more runs")
    command("validate", "say whether files hold sound traces", parents=[recorded])
    command("explain", "say where the rounds of runs stopped, and what would have brought more", parents=[recorded])
    still = command("replay", "write traces as one HTML page that works from a file", parents=[recorded])
    still.add_argument("--out", type=Path, required=True, help="HTML file to write")

    many = command("bench", "measure methods on prompt files", parents=[decoding, asking])
    many.add_argument("--methods", help=f"comma-separated (default: {','.join(MEASURED)}, and those of --head)")
    own = "JSON file of heads and settings to compare in place of methods (jakiro/measuring/variants.py)"
    many.add_argument("--variants", type=Path, metavar="FILE.json", help=own)
    several = "one or more to measure at; 0, the default, is greedy; settings that are auto are tuned for the lowest"
    many.add_argument("--temperature", type=float, nargs="+", default=[0.0], help=several)
    many.add_argument("--repeats", type=positive, default=1, help="speeds are medians over them (default: 1)")
    many.add_argument("--peers", action="store_true", help="measure transformers' own generation beside them")
    many.add_argument("--limits", action="store_true", help="also measure the hardware's limit and the networks alone")

    fit = command("tune", "measure which draft tree pays here", parents=[model, chosen, asking])
    fit.add_argument("--method", required=True, help="draft_model, eagle2, eagle3 or jakiro")
    fit.add_argument("--temperature", **heat)
    fit.add_argument("--top-p", **mass)
    fit.add_argument("--out", type=Path, help="file to write; without it the result is only printed")

    sick = command("doctor", "say why a head accepts little", parents=[model, asking])
    sick.add_argument("--method", required=True, help="eagle2, eagle3 or jakiro")
    sick.add_argument("--out", type=Path, help="file to write; without it the findings are only printed")

    learn = command("train", "train the target, or heads of it; with accelerate, on many devices")
    kinds = "target, answers (the target's own, for heads), texts (a teacher's, for a target), or heads of the recipe"
    learn.add_argument("what", nargs="+", help=kinds)
    learn.add_argument(
        "--data", required=True, help="folder of the recipe's files, or instead of them one JSONL file or hub dataset"
    )
    known = "JSON file, or the name of one that ships; default: target-cpu or heads-cpu, of texts texts-gpu"
    learn.add_argument("--recipe", type=recipe_file, metavar="FILE", help=known)
    learn.add_argument("--run-folder", type=Path, help="checkpoints and metrics; resumes what is there; none for texts")
    learn.add_argument("--target", type=Path, help="the heads' target, or the teacher: folder or hub id")
    learn.add_argument("--like", type=Path, help="folder of a model whose tokenizer a new target takes, to assist it")
    learn.add_argument("--parent", type=Path, help="folder or hub id in place of the recipe's `parent`, a target's")
    ask_for_template(learn)
    learn.add_argument("--start", type=Path, help="go on from a trained target, or from a folder of trained heads")
    written = "folder to write, for answers a file; default: heads in your target's, answers in the run's"
    learn.add_argument("--out", type=Path, default=None, help=written)
    trainer = "cpu or cuda (mps, xpu: not tried); accelerate chooses which GPU a process takes (default: %(default)s)"
    learn.add_argument("--device", default="cpu", help=trainer)
    learn.add_argument("--threads", type=positive, help="CPU threads; default: all that this process may use")
    learn.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    learn.add_argument("--shard", action="store_true", help="share parameters among the processes (FSDP)")

    ask = command("experiment", "train several heads alike, decode with each, compare", parents=[asking])
    ask.add_argument(
        "what",
        type=experiment_file,
        help=f"{', '.join(EXPERIMENTS)}, or a JSON file (jakiro/measuring/experiment.py)",
    )
    ask.add_argument("--data", required=True, help="as for train")
    ask.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    ask_for_template(ask)
    ask.add_argument(
        "--run-folder", type=Path, required=True, help="the heads and their training; resumes what is there"
    )
    ask.add_argument("--repeats", type=positive, default=1, help="speeds are medians over them (default: 1)")
    again = "in place of the recipe's: other texts, answers and, where a head names no seed, another beginning"
    ask.add_argument("--seed", type=int, help=again)
    some = "only these heads and what compares them; the reference's must be among them (default: all)"
    ask.add_argument("--heads", nargs="+", metavar="NAME", help=some)
    ask.add_argument("--device", default="cpu", help=trainer)
    decoded = "dtype used for decoding (default: %(default)s); training: docs/training.md"
    ask.add_argument("--dtype", default="float32", help=decoded)
    ask.add_argument("--no-compile", dest="compile", action="store_false", help="train without torch.compile")
    ask.add_argument("--out", type=Path, required=True, help="report to write, as bench does")
    ask.add_argument("--page", type=Path, help="Markdown file to write: tables, and what they allow one to say")

    says = "write the model card of a trained target and its heads, README.md in its folder, over one that is there"
    about = command("card", says, allow_abbrev=False)  # --head is not --heads-recipe
    about.add_argument("--target", type=Path, default=TARGET, help="its folder (default: the embedded model)")
    made = "what it was trained by: a JSON file, or the name of one that ships (default: target-gpu)"
    about.add_argument("--target-recipe", type=recipe_file, default=RECIPES / "target-gpu.json", help=made)
    runs = [RECIPES / "heads-gpu.json"]
    grown = "what its heads were trained by, of every run, in turn (default: heads-gpu)"
    about.add_argument("--heads-recipe", type=recipe_file, nargs="+", default=runs, help=grown)
    about.add_argument("--default", type=Path, required=True, help="bench.json with the device's default tree")
    about.add_argument("--wide", type=Path, required=True, help="bench.json with 60 nodes")
    about.add_argument("--data", type=Path, required=True, help="folder with train/ and eval/")
    about.set_defaults(device="cpu", dtype="float32", head=[], graphs=True, compile=False)
    about.set_defaults(attention=None, chat_template=None, system=None)
    return whole
