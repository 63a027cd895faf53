"""Tiny random models, tokenizers, heads and trees for the tests. Everything is seeded."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from jakiro.tree import DraftTree

VOCAB = 300
CONTEXT = 160
CHAT = "{% for m in messages %}<user>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
EXTRAS = {  # what a family needs besides SIZES
    "gpt2": {"n_positions": CONTEXT},
    "gemma2": {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 3, "final_logit_softcapping": 5.0},
    "mistral": {"sliding_window": 2},
    "gpt_oss": {"head_dim": 8, "sliding_window": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "llama4_text": {"head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2},
    "modernbert-decoder": {"bos_token_id": 0, "pad_token_id": 0, "cls_token_id": 0, "sep_token_id": 0},
}


def tiny_model(family: str = "llama", attention: str = "sdpa", seed: int = 0, **changes) -> PreTrainedModel:
    """A random fp32 model whose weights are large enough that its text varies and every mistake shows."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **(SIZES | EXTRAS.get(family, {}) | changes))
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=1.0 if "emb" in name or "wte" in name else 1.6 * weight.shape[-1] ** -0.5)
    return model


def tiny_tokenizer(template: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level, a few merges: ids 0 to 255 are bytes, then words, then the special tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: at for at, letter in enumerate(letters)}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    core = Tokenizer(models.BPE(vocab, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<user>", "<bot>"]})
    tokenizer.chat_template = CHAT if template else None
    return tokenizer


def random_tree(rng: random.Random, root: int, nodes: int, vocab: int = VOCAB) -> DraftTree:
    """Any shape, siblings distinct, parents before children but in no other order."""
    tokens, parents, taken = [root], [-1], set()
    while len(tokens) < nodes:
        parent, token = rng.randrange(len(tokens)), rng.randrange(vocab)
        if (parent, token) not in taken:
            taken.add((parent, token))
            tokens.append(token)
            parents.append(parent)
    return DraftTree(tokens, parents, [0.0] * nodes)


def save_heads(folder: Path, seed: int = 0) -> dict[str, Path]:
    """Random heads in the published layout that fit `tiny_model`, with weights large enough for varied trees, and a
    draft model."""
    import naive_eagle3

    from jakiro.drafting.config import HeadConfig
    from jakiro.drafting.head import EagleHead, JakiroHead
    from jakiro.drafting.weights import save_head

    torch.manual_seed(seed)
    config = HeadConfig(hidden_size=32, intermediate_size=48, num_attention_heads=4, vocab_size=VOCAB)
    heads = {"eagle2": EagleHead(config), "jakiro": JakiroHead(config)}
    for name, head in heads.items():
        with torch.no_grad():
            for weight in head.parameters():
                if weight.dim() > 1:
                    weight.normal_(std=1.5 * weight.shape[-1] ** -0.5)
        save_head(folder / name, head)
    naive_eagle3.save(folder / "eagle3", naive_eagle3.config(), seed)
    tiny_model(num_hidden_layers=1, seed=seed + 1).save_pretrained(folder / "draft_model")
    tiny_tokenizer().save_pretrained(folder / "draft_model")
    return {name: folder / name for name in ("draft_model", *heads, "eagle3")}
