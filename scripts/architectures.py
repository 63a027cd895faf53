"""Which causal language models of transformers decode as targets: `python -m scripts.architectures`.

A tiny random model of each architecture that transformers lists for causal language modelling is made and loaded. Where
it is not refused, its text is decoded three ways: by the model's own `generate` (greedy), by vanilla rounds, and by
rounds whose trees hold most of that text among decoys, greedily and drawn. `outcome` of a row:

    identical   all ids were the same
    differs     they were not: a defect, and `why` says where
    refused     not usable as a target, and `why` is what the user is told
    not tried   transformers does not make it from the small sizes below, or it is one of several kinds of input

`window` is that of its sliding layers, which the text leaves behind; `no_tapes` says why passes do not run from tapes
(jakiro/tape.py), and is empty where they do.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tqdm import tqdm
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from benchmarks import common
from jakiro.commands.arguments import positive
from jakiro.drafter import Context, Drafter
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.metrics import first_difference
from jakiro.target import Target
from jakiro.tree import DraftTree
from jakiro.verify import Sampling

SCHEMA = "jakiro-architectures/2"  # the first one knew no tapes
LARGEST = 30_000_000  # parameters of a model that still counts as tiny; others take no small sizes
DEPTH = 4
SAMPLINGS = (Sampling(), Sampling(temperature=1.0, top_p=0.95, seed=3))
SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 160,
    "bos_token_id": 0,
    "eos_token_id": None,
    "pad_token_id": 0,
}
NAMED_OTHERWISE = {  # sizes that some architectures have beside those, or instead
    **dict.fromkeys(("d_model", "n_embd", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("d_ff", "ffn_dim", "n_inner"), 48),
    **dict.fromkeys(("n_layer", "n_layers", "num_layers"), 6),
    **dict.fromkeys(("n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("n_positions", "max_seq_len"), 160),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    "num_experts_per_tok": 2,
    "rotary_dim": 4,
    "sliding_window": 24,  # a few tokens more than the prompt
}
SEES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "image_size": 32, "patch_size": 16}
SHARING = {"vocab_size_per_layer_input": 300, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 6}
GEMMA4 = SHARING | {"num_hidden_layers": 12, "global_head_dim": 8}
WINDOW = {"sliding_window": NAMED_OTHERWISE["sliding_window"]}
OWN = {  # what an architecture needs besides, so as to be as its released models are
    "gemma3": {"text_config": SIZES | WINDOW | {"head_dim": 8}, "vision_config": SEES, "mm_tokens_per_image": 4},
    "gemma3n_text": SHARING | {"num_hidden_layers": 12, "intermediate_size": [48] * 12, "laurel_rank": 4},
    "gemma4": {"text_config": SIZES | WINDOW | GEMMA4, "vision_config": SEES},
    "gemma4_text": GEMMA4,
    "gpt_neo": {"attention_types": [[["global", "local"], 3]]},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention"] * 2},
    "longcat_flash": {"num_layers": 3, "ffn_hidden_size": 48, "expert_ffn_hidden_size": 16},
    "qwen3_5": {"text_config": SIZES},
    "llama4": {"text_config": SIZES | {"head_dim": 8, "num_local_experts": 4}, "vision_config": SEES},
}


@dataclass
class Informed(Drafter):
    """Knows the text, and gets the second level wrong in every third round. Each token has a decoy with a child."""

    text: list[int]  # prompt and answer
    vocab: int
    rounds: int = 0

    def draft(self, context: Context) -> DraftTree:
        self.rounds += 1
        tokens, parents, right = [context.tokens[-1]], [-1], 0
        for level, token in enumerate(self.text[len(context.tokens) :][:DEPTH], start=1):
            drafted = (token + (level == 2 and self.rounds % 3 == 0)) % self.vocab
            tokens += [(drafted + 1) % self.vocab, token, drafted]
            parents += [right, len(tokens) - 3, right]
            right = len(tokens) - 1
        return DraftTree(tokens, parents, [0.0] * len(tokens))


def build(family: str) -> PreTrainedModel:
    """A tiny random model in fp32. Raises whatever transformers raises where the sizes are not to its liking."""
    known = AutoConfig.for_model(family).to_dict()
    named = {name: size for name, size in (SIZES | NAMED_OTHERWISE).items() if name in known or name in SIZES}
    if "kv_lora_rank" in known:  # from latent ones each head has keys and values of its own
        named["num_key_value_heads"] = named["num_attention_heads"]
    config = AutoConfig.for_model(family, **named | OWN.get(family, {}))
    with torch.device("meta"):
        size = AutoModelForCausalLM.from_config(config).num_parameters()
    if size > LARGEST:
        raise ValueError(f"{size:,} parameters, with the small sizes too")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():  # as they are made, weights are so small that a text repeats itself
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=1.6 * weight.shape[-1] ** -0.5)
    return model


@torch.inference_mode()
def generated(target: Target, prompt: list[int], count: int) -> list[int]:
    """The model's own greedy text."""
    ids = torch.tensor([prompt], device=target.device)
    written = target.model.generate(ids, min_new_tokens=count, max_new_tokens=count, do_sample=False, pad_token_id=0)
    return written[0, len(prompt) :].tolist()


def compare(target: Target, count: int) -> dict[str, Any]:
    """Decode `count` tokens each way: the outcome, and tokens per round where drafts were informed."""
    draw = random.Random(0)
    prompt = [draw.randrange(target.vocab_size) for _ in range(20)]
    vanilla = METHODS["vanilla"]
    tau = []
    for sampling in SAMPLINGS:
        drafter = vanilla.load(target)(vanilla.defaults(target))
        text = record(target, drafter, prompt, count, sampling).tokens
        drafted = record(target, Informed(prompt + text, target.vocab_size), prompt, count, sampling)
        found = {"rounds with drafts": drafted.tokens}
        if sampling.temperature == 0:
            found["generate"] = generated(target, prompt, len(text))
        for name, ids in found.items():
            if ids != text:
                at = first_difference(text, ids)
                why = f"{name} and vanilla part after {at} tokens at temperature {sampling.temperature:g}"
                return {"outcome": "differs", "why": why}
        tau += [len(step.emitted) for step in drafted.steps]
    return {"outcome": "identical", "tau": sum(tau) / len(tau)}


def judge(family: str, count: int) -> dict[str, Any]:
    """One architecture's row."""
    row = {"family": family, "class": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family]}
    try:
        model = build(family)
    except Exception as error:  # every architecture complains in its own way
        return row | {"outcome": "not tried", "why": f"{type(error).__name__}: {error}".split("\n")[0]}
    try:
        target = Target.wrap(model)
    except ValueError as error:
        return row | {"outcome": "refused", "why": str(error)}
    row |= {"no_tapes": target.no_graphs} | ({"window": target.window} if target.window else {})
    return row | compare(target, count)


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Judge every architecture that was asked for."""
    unknown = sorted(set(options.families) - set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    if unknown:
        raise ValueError(
            f"transformers has no causal language model {', '.join(unknown)}; leave --families out for all"
        )
    families = sorted(options.families or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    rows = [judge(family, options.max_new_tokens) for family in tqdm(families)]
    head = common.head(SCHEMA, torch.device("cpu")) | {"max_new_tokens": options.max_new_tokens}
    return head | {"rows": rows}, [[_line(row) for row in rows]]


def _line(row: dict[str, Any]) -> dict[str, str]:
    return {"family": row["family"], "outcome": row["outcome"], "": row.get("why") or f"tau {row['tau']:.2f}"}


def main(argv: Sequence[str] | None = None) -> int:
    transformers.logging.set_verbosity_error()
    parser = common.parser("architectures", __doc__, "scripts")
    parser.add_argument("--families", nargs="+", default=[], metavar="NAME", help="model_type of each (default: all)")
    parser.add_argument("--max-new-tokens", type=positive, default=40, help="(default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())
