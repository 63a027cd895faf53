"""Scoring a tree is one plain forward per path, for several architectures; what cannot work is refused at load."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from importlib.metadata import version
from types import SimpleNamespace

import pytest
import torch
from packaging.version import Version
from safetensors.torch import load_file, save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tiny import CHAT, CONTEXT, SIZES, random_tree, tiny_model, tiny_tokenizer
from tokenizers import processors
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.models import checks, loading
from jakiro.models.attention import sdpa
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.head_job import takes_apart
from jakiro.tree import DraftTree
from jakiro.verify import Sampling

FAMILIES = [
    ("llama", "sdpa"),
    ("llama", "eager"),
    ("qwen2", "sdpa"),
    ("gpt2", "sdpa"),
    ("gpt_neox", "eager"),
    ("gemma2", "eager"),  # soft-capped logits, sliding window
    ("mistral", "sdpa"),  # sliding window in all layers
    ("gpt_oss", "eager"),  # and in every second one, with attention sinks
    ("qwen3_moe", "sdpa"),
    ("granite", "sdpa"),  # scaled logits
    ("cohere", "sdpa"),  # the other way round
    ("llama4_text", "sdpa"),  # its decoder is not where transformers looks for it
]
SCALES = {"granite": {"logits_scaling": 6.0}, "cohere": {"logit_scale": 0.3}}


@pytest.fixture(scope="module", params=FAMILIES, ids="-".join)
def any_target(request) -> Target:
    return Target.wrap(tiny_model(*request.param, **SCALES.get(request.param[0], {})))


def plain(target: Target, ids: list[int]):
    """Logits and features of the last token by the model alone."""
    with torch.inference_mode():
        output = target.model(torch.tensor([ids]), output_hidden_states=True)
    return output.logits[0, -1], output.hidden_states[-1][0, -1]


def prefilled(target: Target, ids: list[int]):
    cache = target.new_cache(CONTEXT)
    with torch.inference_mode():
        return cache, *target.prefill(torch.tensor(ids), cache)


@torch.inference_mode()
def scored(target: Target, tree, cache):
    return target.score(tree.tokens, tree.parents, cache)


def test_tree_scores_are_those_of_its_paths(any_target):
    rng = random.Random(1)
    prompt = [rng.randrange(300) for _ in range(9)]
    cache, last, features = prefilled(any_target, prompt)
    for row, expected in zip((last, features[-1]), plain(any_target, prompt), strict=True):
        torch.testing.assert_close(row, expected, atol=1e-4, rtol=1e-4)
    tree = random_tree(rng, 7, 14)
    logits, features = scored(any_target, tree, cache)
    for node in range(len(tree)):
        expected = plain(any_target, [*prompt, *tree.paths()[node]])
        torch.testing.assert_close(logits[node], expected[0], atol=2e-4, rtol=1e-3)
        torch.testing.assert_close(features[node], expected[1], atol=2e-4, rtol=1e-3)


def test_a_pass_uses_nothing_that_transformers_takes_away(any_target, recwarn):
    prefilled(any_target, [1, 2, 3])
    assert not [str(one.message) for one in recwarn if issubclass(one.category, FutureWarning)]


def test_cache_after_keep_is_a_fresh_prefill(any_target):
    """Three rounds of trees; then every stored row and the next logits, against a prefill of the accepted text."""
    rng = random.Random(2)
    text = [rng.randrange(300) for _ in range(6)]
    cache, _, _ = prefilled(any_target, text)
    for _ in range(3):
        tree = random_tree(rng, rng.randrange(300), 10)
        scored(any_target, tree, cache)
        path = tree.paths()[rng.randrange(1, 10)]
        cache.keep(cache.length, [0, *tree.along(path[1:])])
        text += path
    fresh, _, _ = prefilled(any_target, text)
    assert cache.length == fresh.length == len(text)
    for kept, expected in zip(cache._storage.values(), fresh._storage.values(), strict=True):
        torch.testing.assert_close(kept[:, :, : len(text)], expected[:, :, : len(text)], atol=2e-4, rtol=1e-3)
    logits, _ = scored(any_target, random_tree(rng, 5, 1), cache)
    torch.testing.assert_close(logits[0], plain(any_target, [*text, 5])[0], atol=2e-4, rtol=1e-3)


def test_embed_and_logits_are_the_models_ends(target):
    ids = torch.tensor([3, 4, 5])
    _, last, features = prefilled(target, ids.tolist())
    torch.testing.assert_close(target.logits(features[-1]), last)
    assert torch.equal(target.embed(ids), target.model.get_input_embeddings().weight[ids])


def test_embed_reads_the_table_where_the_model_scales_it():
    """Published heads were trained on the table; Gemma multiplies by the root of its width when it is asked."""
    target, ids = Target.wrap(tiny_model("gemma2", "eager")), torch.tensor([3, 4, 5])
    scaled, table = target.model.get_input_embeddings()(ids), target.model.get_input_embeddings().weight[ids]
    assert not torch.allclose(scaled, table)
    assert torch.equal(target.embed(ids), table)


def test_features_have_the_models_own_law(any_target):
    """Its scale and its soft cap included."""
    _, last, features = prefilled(any_target, [3, 4, 5])
    found = any_target.logits(features[-1])
    torch.testing.assert_close(found.log_softmax(-1), last.log_softmax(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("family", "scale"), [("llama", 1.0), ("granite", 1 / 6), ("cohere", 0.3)])
def test_the_scale_of_logits_is_found_in_half_precision(family, scale):
    target = Target.wrap(tiny_model(family, **SCALES.get(family, {})).bfloat16())
    assert target.logit_scale == pytest.approx(scale, rel=1e-3)


@pytest.mark.parametrize(("device", "calls"), [("cpu", []), ("cuda", [False])])
def test_kernels_of_attention_are_ours_and_never_cudnns(monkeypatch, device, calls):
    asked = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", asked.append)
    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", None)
    loading.choose_kernels(torch.device(device))
    assert AttentionInterface()["sdpa"] is sdpa and asked == calls


def test_a_target_whose_features_cannot_be_read_has_no_heads():
    """ModernBERT's decoder has a layer more between its last hidden state and its output embedding."""
    target = Target.wrap(tiny_model("modernbert-decoder"))
    assert target.hidden_size == 32
    with pytest.raises(ValueError, match=r"use vanilla, .*, draft_model or a trained eagle3 head"):
        target.check_heads()


def test_facts_are_read_off_the_model(target):
    assert (target.vocab_size, target.hidden_size, target.context) == (300, 32, CONTEXT)
    assert target.dtype == torch.float32 and target.device.type == "cpu"


@pytest.mark.parametrize(("family", "window"), [("mistral", 2), ("gemma2", 3), ("gpt_oss", 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sliding_window_does_not_bound_the_context(family, window, dtype):
    target = Target.wrap(tiny_model(family, "sdpa" if family == "mistral" else "eager").to(dtype))
    assert (target.context, target.window) == (CONTEXT, window)
    assert target.model.config.sliding_window == window  # another was tried


def test_a_window_that_masks_cannot_follow_bounds_the_context():
    """Moshi's is that of its own cache: its masks know of none."""
    target = Target.wrap(tiny_model("moshi", sliding_window=48, ffn_dim=48))
    assert (target.context, target.window) == (48, 0)


def test_limits_that_no_layer_of_the_cache_shows_bound_the_context():
    """Llama 4 scales queries by their row of the cache; Doge leaves tokens out of longer texts."""
    llama4 = tiny_model("llama4_text", floor_scale=1100, attn_temperature_tuning=True)
    assert Target.wrap(llama4).context == 1100 - checks.MOST_ROWS
    doge = tiny_model("doge", keep_window_size=50)
    if Version(version("transformers")) >= Version("5.20"):  # 5.15's follows no tree
        assert Target.wrap(doge).context == 50
    else:
        with pytest.raises(ValueError, match="scores a tree differently from its paths"):
            Target.wrap(doge)


def test_features_of_all_tokens_are_seen_where_layers_share_keys():
    """Gemma 4 leaves tokens whose logits nobody asks for out of such layers."""
    sharing = {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300}
    layers = ["sliding_attention", "full_attention"] * 2
    sharing |= {"num_hidden_layers": 4, "layer_types": layers, "global_head_dim": 8, "head_dim": 8}
    target = Target.wrap(tiny_model("gemma4_text", **sharing))
    _, last, features = prefilled(target, [3, 4, 5, 6])
    assert features.shape == (4, 32)
    torch.testing.assert_close(last, plain(target, [3, 4, 5, 6])[0], atol=1e-4, rtol=1e-4)


LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
LONG |= {"original_max_position_embeddings": 40}
LAYERS = ["full_attention", "sliding_attention", "full_attention"]
BY_LAYER = {"full_attention": LONG, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({"rope_type": "default"}, CONTEXT),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": CONTEXT}, 4 * CONTEXT),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": CONTEXT // 2}, CONTEXT),
        ({"rope_type": "linear", "factor": 3.0}, 3 * CONTEXT),
        ({"rope_type": "dynamic", "factor": 3.0}, CONTEXT),
    ],
)
def test_positions_that_are_stretched_are_read_as_far_as_that_goes(rope, context):
    """As where YaRN is added to a config by hand, which leaves max_position_embeddings as it was."""
    assert Target.wrap(tiny_model(rope_parameters=rope | {"rope_theta": 10000.0})).context == context


@pytest.mark.parametrize("factor", [None, "x", 0, -2.0, math.inf])
def test_a_stretch_that_is_no_number_is_named(factor):
    model = tiny_model()
    model.config.rope_parameters = {"rope_type": "yarn", "factor": factor, "rope_theta": 10000.0}
    with pytest.raises(ValueError, match=r"config\.json has a rotary factor of .*: mend it"):
        Target.wrap(model)


def test_a_window_that_is_no_number_is_named():
    model = tiny_model()
    model.config.sliding_window = "x"
    with pytest.raises(ValueError, match=r"config\.json has a sliding_window of 'x', .*: mend it"):
        Target.wrap(model)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("config.json", {"num_hidden_layers": 10**9}, "a num_hidden_layers of 1000000000: mend it"),
        ("config.json", {"num_hidden_layers": -1}, "a num_hidden_layers of -1: mend it"),
        ("config.json", {"max_position_embeddings": -1}, "max_position_embeddings of -1"),
        ("config.json", {"pad_token_id": 10**6}, "no model can be made"),
        ("generation_config.json", {"eos_token_id": "45"}, "ends texts with '45', which is no id"),
        ("generation_config.json", {"eos_token_id": [3, 45.0]}, "ends texts with 45.0, which is no id"),
        ("tokenizer_config.json", {"model_max_length": "2048"}, "a model_max_length of '2048': make it a number"),
    ],
)
def test_numbers_that_cannot_be_are_named_with_their_file(folder, tmp_path, name, change, said):
    odd = shutil.copytree(folder, tmp_path / "odd")
    before = json.loads((odd / name).read_text()) if (odd / name).exists() else {}
    (odd / name).write_text(json.dumps(before | change))
    with pytest.raises(ValueError, match=re.escape(said)):
        Target.load(odd)


@pytest.mark.parametrize("name", ["_attn_implementation", "attn_implementation"])
def test_attention_that_takes_no_trees_is_not_asked_for(folder, tmp_path, name):
    odd = shutil.copytree(folder, tmp_path / "odd")
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps(config | {name: "flash_attention_2"}))
    assert Target.load(odd).model.config._attn_implementation == "sdpa"
    assert loading.load_model(odd).config._attn_implementation == "sdpa"
    assert Target.load(odd, attention="eager").model.config._attn_implementation == "eager"


def test_a_scale_below_a_soft_cap_is_measured():
    """As MuseGlimmer's."""
    given = torch.Generator().manual_seed(0)
    output, config = torch.nn.Linear(32, 90, bias=False), SimpleNamespace(final_logit_softcapping=3.0)
    output.weight = torch.nn.Parameter(4 * torch.randn(90, 32, generator=given), requires_grad=False)
    config.get_text_config = lambda: config
    model = SimpleNamespace(get_output_embeddings=lambda: output, config=config)
    features = torch.randn(12, 32, generator=given)
    logits = 3.0 * (0.2 * output(features) / 3.0).tanh()
    assert float((logits.abs() > 2.9).float().mean()) > 0.05  # of what is cut off nothing is learnt
    assert checks._logit_scale(SimpleNamespace(model=model), logits, features) == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")])
def test_what_memory_does_not_suffice_for_is_not_taken_for_the_model(error):
    """Else the scale would be 0, and every head of the target be refused."""

    def fail(features):
        raise error

    model = SimpleNamespace(get_output_embeddings=lambda: fail)
    with pytest.raises(type(error), match="memory"):
        checks._logit_scale(SimpleNamespace(model=model), torch.zeros(2, 9), torch.zeros(2, 4))


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_brackets_without_end_are_a_damaged_file(folder, tmp_path, name):
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / name).write_text("[" * 100_000)
    with pytest.raises(ValueError, match="download"):
        Target.load(broken)


@pytest.mark.parametrize("content", [b"", b'{"eos_token_id": [1,', b"\xff"])
def test_a_file_of_where_texts_end_is_whole(folder, tmp_path, content):
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "generation_config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"generation_config\.json, which says where texts end, is damaged"):
        Target.load(broken)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("phi3", {"rope_parameters": LONG}),
        ("gemma3_text", {"rope_parameters": BY_LAYER, "layer_types": LAYERS, "head_dim": 8, "sliding_window": 99}),
    ],
)
def test_longrope_bounds_the_context_where_its_long_factors_begin(family, changes):
    """The factors of a pass go by its deepest position: a tree across that length would not be what its paths are."""
    target = Target.wrap(tiny_model(family, original_max_position_embeddings=40, **changes))
    assert target.context == 40
    prompt = list(range(36))
    cache, _, _ = prefilled(target, prompt)
    chain = DraftTree([7, 8, 9, 10, 11], [-1, 0, 1, 2, 3], [0.0] * 5)  # its last node is past the context
    inside, across = (
        scored(target, DraftTree(chain.tokens[:n], chain.parents[:n], chain.scores[:n]), cache)[0][0] for n in (4, 5)
    )
    torch.testing.assert_close(inside, plain(target, [*prompt, 7])[0], atol=2e-4, rtol=1e-3)
    assert (across - inside).abs().max() > 0.01


@pytest.mark.parametrize(
    ("ids", "expected"),
    [((None, None), set()), ((7, None), {7}), ((0, 9), {0}), (([4, 5], 9), {4, 5}), ((None, 0), {0})],
)
def test_ends_are_those_of_generate(ids, expected):
    model = tiny_model(num_hidden_layers=1)
    model.generation_config.eos_token_id, model.config.eos_token_id = ids
    assert Target.wrap(model).ends == expected


def test_the_tokenizers_end_of_turn_ends_the_text_too(tokenizer):
    model = tiny_model(num_hidden_layers=1)
    model.generation_config.eos_token_id = 3
    assert Target.wrap(model, tokenizer).ends == {3, tokenizer.eos_token_id}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_models_that_ignore_the_tree_are_refused(dtype):
    mpt = tiny_model("mpt", "eager", d_model=32, n_heads=4, n_layers=2, num_hidden_layers=2, max_seq_len=64).to(dtype)
    with pytest.raises(ValueError, match="differently from its paths"):
        Target.wrap(mpt)


def test_weights_that_give_no_numbers_are_said_to():
    """Of a training that has diverged; the architecture is not to blame."""
    model = tiny_model(num_hidden_layers=1)
    model.model.norm.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"answers with what is no number in torch\.float32"):
        Target.wrap(model)


def test_models_that_read_no_tree_mask_are_refused():
    """BLOOM's masks have two dimensions, and it has eager attention alone."""
    bloom = tiny_model("bloom", "eager", n_layer=2, n_head=4)
    with pytest.raises(ValueError, match=r"cannot score a tree with eager: .*; use another model"):
        Target.wrap(bloom)


def test_a_model_that_masks_tokens_is_checked_by_the_others():
    """As Chameleon does: beside a logit of finfo.min no error of another would count."""

    def masked(by):
        model = tiny_model(num_hidden_layers=1)
        model.lm_head.register_forward_hook(lambda _, given, logits: logits.index_fill(-1, torch.tensor([3]), by))
        return model

    lowest = torch.finfo(torch.float32).min
    assert Target.wrap(masked(lowest)).tapes is not None
    blind = masked(lowest)
    blind.register_forward_pre_hook(lambda _, given, named: (given, named | {"attention_mask": None}), with_kwargs=True)
    with pytest.raises(ValueError, match="scores a tree differently from its paths"):
        Target.wrap(blind)
    with pytest.raises(ValueError, match=r"an infinite logit in torch\.float32, which a trace cannot hold"):
        Target.wrap(masked(-torch.inf))


def test_models_with_alibi_are_refused_for_that():
    """Another attention would not help."""
    falcon = tiny_model("falcon", num_attention_heads=4, alibi=True)
    with pytest.raises(ValueError, match=r"\(ALiBi\): a tree is not its paths; use a model"):
        Target.wrap(falcon)


def test_models_that_assert_that_masks_are_flat_are_refused():
    """XLM does, and its assertion says nothing."""

    def flat(_, __, given):
        if getattr(given.get("attention_mask"), "ndim", 2) > 2:
            raise AssertionError

    model = tiny_model(attention="eager", num_hidden_layers=1)
    model.register_forward_pre_hook(flat, with_kwargs=True)
    with pytest.raises(ValueError, match="cannot score a tree with eager: AssertionError; try sdpa"):
        Target.wrap(model)


def test_models_that_mask_rows_instead_of_positions_are_refused():
    """Their window is beyond what is tried when a target is loaded."""
    layers = [[["global", "local", "global"], 1]]
    neo = tiny_model("gpt_neo", "eager", num_heads=4, attention_types=layers, window_size=16)
    with pytest.raises(ValueError, match="masks rows of its cache, not positions"):
        Target.wrap(neo)


def test_recurrent_states_are_refused():
    hybrid = tiny_model("qwen3_next", num_hidden_layers=4, head_dim=8, num_experts=2, num_experts_per_tok=1)
    with pytest.raises(ValueError, match="layers are all plain attention"):
        Target.wrap(hybrid)


def test_attention_without_tree_masks_is_refused():
    model = tiny_model(num_hidden_layers=1)
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(ValueError, match="takes no tree mask"):
        checks.check_trees(_bare(model))


def _bare(model) -> Target:
    """A target as far as the check reads it; flash attention itself is not installed where tests run."""
    target = Target.__new__(Target)
    target.model = model
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer, heads):
    """A saved target with a head in a sub-folder."""
    path = tmp_path_factory.mktemp("models") / "small"
    tiny_model().save_pretrained(path)
    tokenizer.save_pretrained(path)
    (path / "eagle2").mkdir()
    (path / "eagle2" / "config.json").write_text("{}")
    (path / "notes").mkdir()
    return path


def test_load_reads_a_folder(folder, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    loaded = Target.load(folder, heads={"jakiro": tmp_path})
    assert loaded.name == "small"
    assert loaded.heads == {"eagle2": folder / "eagle2", "jakiro": tmp_path}
    assert loaded.tokenizer.decode(loaded.tokenizer("the man").input_ids) == "the man"
    original = Target.wrap(tiny_model(), heads={"jakiro": str(tmp_path)})
    assert original.heads == {"jakiro": tmp_path}
    torch.testing.assert_close(plain(loaded, [1, 2, 3])[0], plain(original, [1, 2, 3])[0])


def test_what_cannot_be_is_said_before_weights_are_read(folder, tmp_path, tokenizer, monkeypatch):
    """Those of a large target take minutes."""
    monkeypatch.setattr("jakiro.target.load_model", lambda *_, **__: pytest.fail("the weights are read"))
    with pytest.raises(FileNotFoundError, match=r"--head jakiro=.*gone has no config\.json: give a folder with a head"):
        Target.load(folder, heads={"jakiro": tmp_path / "gone"})
    hybrid = tmp_path / "hybrid"
    tiny_model("lfm2", layer_types=["conv", "conv", "full_attention"]).save_pretrained(hybrid)
    tokenizer.save_pretrained(hybrid)
    with pytest.raises(ValueError, match="hybrid has conv layers, whose states cannot take back a rejected token; use"):
        Target.load(hybrid)
    for family, kind in (("deepseek_v32", "indexed"), ("deepseek_v4", "compressed_sparse")):
        AutoConfig.for_model(family).save_pretrained(hybrid)
        with pytest.raises(ValueError, match=f"hybrid has {kind}_attention layers, whose states cannot"):
            Target.load(hybrid)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float8"}, "dtype"),
        ({"attention": "flash_attention_2"}, "attention"),
        ({"device": "cuda"}, "no CUDA device"),
        ({"device": "xpu:1"}, "torch sees 1 XPU device here"),
        ({"device": "mps:1"}, "torch sees 1 MPS device here"),
        ({"device": "mps", "dtype": "float64"}, "no float64: use float32"),
    ],
)
def test_load_refuses_what_cannot_run(folder, changes, message, monkeypatch):
    for kind, count in (("cuda", 0), ("xpu", 1), ("mps", 1)):
        monkeypatch.setattr(getattr(torch, kind), "device_count", lambda count=count: count)
    with pytest.raises(ValueError, match=message):
        Target.load(folder, **changes)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_attention_is_what_the_model_has_unless_it_is_asked_for(tmp_path, family):
    """Gemma 2's is eager in some versions of transformers, sdpa in others."""
    tiny_model(family, "eager", num_hidden_layers=1).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    own = AutoModelForCausalLM.from_pretrained(tmp_path).config._attn_implementation
    assert Target.load(tmp_path).model.config._attn_implementation == own
    assert Target.load(tmp_path, attention="eager").model.config._attn_implementation == "eager"


def test_load_names_what_is_missing(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="no model in"):
        Target.load(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match="no weights in"):
        Target.load(tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="git lfs pull"):
        Target.load(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00002.safetensors")
    (tmp_path / "model-00001-of-00002.safetensors").write_text("")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileNotFoundError, match=r"00002-of-00002\.safetensors is listed in the index but is not there"):
        Target.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(FileNotFoundError, match="no tokenizer in"):
        Target.load(tmp_path)


def test_an_adapter_is_told_from_a_model(folder, tmp_path):
    """Its config.json is there or not, and its weights end as a model's do."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / name).write_text("{}")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"holds an adapter, no model: merge it into one \(peft's"):
            Target.load(tmp_path)
        shutil.copy(folder / "config.json", tmp_path)
    shutil.copy(folder / "model.safetensors", tmp_path)
    with pytest.raises(FileNotFoundError, match="no tokenizer in"):
        Target.load(tmp_path)  # merged, in the adapter's own folder


def test_a_chat_template_may_come_from_a_file(folder, tmp_path, caplog):
    bare = tmp_path / "bare"
    tiny_model(num_hidden_layers=1).save_pretrained(bare)
    tiny_tokenizer(template=False).save_pretrained(bare)
    plain = Target.load(bare).tokenizer
    assert "bare has no chat template" in caplog.text and "--chat-template FILE" in caplog.text
    caplog.clear()
    (tmp_path / "chat.jinja").write_text(CHAT, encoding="utf-8-sig")
    given = Target.load(bare, chat_template=tmp_path / "chat.jinja").tokenizer
    assert encode(plain, "the") == plain("the").input_ids
    assert encode(given, "the") == given("<user>the<bot>").input_ids == encode(Target.load(folder).tokenizer, "the")
    assert not caplog.records


def test_a_chat_template_that_cannot_be_used_is_refused(folder, tmp_path):
    for broken in (
        "{% for m in messages %}{{ m.content }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[3].content.a }}",
    ):
        (tmp_path / "chat.jinja").write_text(broken)
        with pytest.raises(ValueError, match=r"chat\.jinja: the chat template refuses .*--chat-template FILE"):
            Target.load(folder, chat_template=tmp_path / "chat.jinja")
    (tmp_path / "chat.jinja").write_text(" \n")
    with pytest.raises(ValueError, match=r"chat\.jinja: the file is empty: give a chat template"):
        Target.load(folder, chat_template=tmp_path / "chat.jinja")
    with pytest.raises(FileNotFoundError, match=r"none\.jinja"):
        Target.load(folder, chat_template=tmp_path / "none.jinja")


def test_a_template_of_its_own_that_refuses_a_users_turn_is_refused(tmp_path):
    own = tiny_tokenizer()
    own.chat_template = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHAT
    tiny_model(num_hidden_layers=1).save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a user's turn alone \(no system\).*--chat-template FILE"):
        Target.load(tmp_path)
    (tmp_path / "chat.jinja").write_text(CHAT)
    assert Target.load(tmp_path, chat_template=tmp_path / "chat.jinja").tokenizer.chat_template == CHAT


def test_a_given_template_that_leaves_out_the_first_token_is_said_to(folder, tmp_path, caplog):
    """Where the tokenizer would put it before a bare text."""
    own = tiny_tokenizer()
    own._tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", own.bos_token_id)])
    shutil.copytree(folder, tmp_path / "own")
    own.save_pretrained(tmp_path / "own")
    for model, template, said in (("own", CHAT, 1), ("own", "{{ bos_token }}" + CHAT, 0), (folder, CHAT, 0)):
        caplog.clear()
        (tmp_path / "chat.jinja").write_text(template)
        Target.load(tmp_path / model, chat_template=tmp_path / "chat.jinja")
        assert caplog.text.count("chat.jinja writes no <s>") == caplog.text.count("{{ bos_token }}") == said
    Target.load(tmp_path / "own")
    assert not caplog.records


SEEING = {  # models that take pictures, too: a text part of llama's kind, and what else they need
    "mistral3": ({"head_dim": 8, "model_type": "mistral"}, {"model_type": "pixtral", "head_dim": 8}),
    "llava": ({"model_type": "llama"}, {"model_type": "clip_vision_model"}),
    "qwen2_5_vl": ({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}, {"num_heads": 2}),
}


@pytest.mark.parametrize("family", SEEING)
def test_models_that_take_pictures_too_are_targets(tmp_path, family, heads):
    text, sees = SEEING[family]
    size = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "image_size": 32, "patch_size": 16}
    size |= {"intermediate_size": 16, "depth": 1, "out_hidden_size": 32}
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, text_config=SIZES | text, vision_config=size | sees)
    model = AutoModelForImageTextToText.from_config(config)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.data.normal_(std=1.0 if "emb" in name else 1.6 * weight.shape[-1] ** -0.5)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    target = Target.load(tmp_path, heads={name: heads[name] for name in ("eagle2", "eagle3")})
    target.ends = frozenset()
    asked = torch.tensor([encode(target.tokenizer, "the man")])
    how = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": [], "pad_token_id": 0}
    written = target.model.generate(asked, attention_mask=torch.ones_like(asked), **how)[0, asked.shape[1] :].tolist()
    assert len(set(written)) > 3
    for name in ("vanilla", "eagle2", "eagle3"):
        settings = METHODS[name].defaults(target)
        drafter = METHODS[name].load(target)(settings)
        assert record(target, drafter, asked[0].tolist(), 12, Sampling()).tokens == written
    assert takes_apart(target) == (family != "qwen2_5_vl")  # whose rows heads learn from as one text


def test_a_model_that_writes_no_text_by_itself_is_refused_in_a_sentence(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "t5")
    (tmp_path / "t5/config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ValueError, match=r"t5 holds a model of type t5, which writes no text by itself: use another$"):
        Target.load(tmp_path / "t5")


def test_code_of_a_repositorys_own_is_neither_run_nor_asked_for(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "own")
    file = tmp_path / "own/config.json"
    code = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    for auto_map in ({}, code):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "own", "auto_map": auto_map}))
        for read in (Target.load, loading.load_model):
            with pytest.raises(ValueError, match="only architectures of transformers itself can be targets") as error:
                read(tmp_path / "own")
            assert "trust_remote_code" not in str(error.value)
    assert not capsys.readouterr().out


def test_a_package_that_weights_need_is_named(folder, monkeypatch):
    def missing(*_, **__):
        raise ImportError("Loading an AWQ quantized model requires gptqmodel.")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", missing)
    with pytest.raises(
        ValueError, match=r"small needs another package \(.* requires gptqmodel\.\): install it, or use"
    ):
        Target.load(folder)


@pytest.mark.parametrize(
    ("quantized", "kind"),
    [
        ({"quantization": {"group_size": 64, "bits": 4}}, "without a quant_method"),  # MLX's
        ({"quantization_config": {"group_size": 64, "bits": 4}}, "without a quant_method"),
        ({"quantization_config": {"quant_method": "exl2", "bits": 4.0}}, "exl2"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, ""),
        ({"quantization_config": {"load_in_8bit": True}}, ""),
        ({"quantization_config": None}, ""),
    ],
)
def test_weights_that_transformers_cannot_unpack_are_left_unread(folder, tmp_path, monkeypatch, quantized, kind):
    """It would draw others in their place."""
    shutil.copytree(folder, tmp_path / "packed")
    raw = json.loads((folder / "config.json").read_text()) | quantized
    (tmp_path / "packed" / "config.json").write_text(json.dumps(raw))

    def read(*_, **__):
        raise ImportError("it is read")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", read)
    said = rf"packed is quantized in a way that transformers does not read \({kind}\): use" if kind else "it is read"
    with pytest.raises(ValueError, match=said):
        Target.load(tmp_path / "packed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("lm_head.weight"), "lm_head.weight is missing"),
        (lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight"), "mlp.up_proj.weight is missing"),
        (
            lambda tensors: tensors.update({"model.norm.weight": torch.ones(8), "lm_head.weight": torch.ones(9, 32)}),
            r"lm_head.weight has shape \[9, 32\], expected \[300, 32\], and 1 more",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(folder, tmp_path, change, message):
    """Transformers would draw them at random, and decode."""
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    tensors = load_file(damaged / "model.safetensors")
    change(tensors)
    save_file(tensors, damaged / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=rf"do not fit its config\.json \(.*{message}.*\): download"):
        Target.load(damaged)


def test_weights_that_cannot_be_read_are_refused(folder, tmp_path):
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    file = damaged / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"the weights in .*damaged cannot be read .*: download them again"):
        Target.load(damaged)


def test_tied_weights_are_there_once_and_load(tmp_path):
    """As small models come: without a tensor of their own for the output embedding."""
    model = tiny_model(num_hidden_layers=1, tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    loaded = Target.load(tmp_path)
    torch.testing.assert_close(plain(loaded, [1, 2])[0], plain(Target.wrap(model), [1, 2])[0])


def test_a_target_with_a_sentencepiece_vocabulary_alone_is_read(tmp_path):
    """As older checkpoints come: `tokenizer.model` and no `tokenizer.json`."""
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    texts = iter(["the man ran", "an ant and the hat", "a tan hat ran"] * 9)
    options = {"vocab_size": 40, "model_type": "bpe", "bos_id": 1, "eos_id": 2, "unk_id": 0}
    tiny_model(num_hidden_layers=1).save_pretrained(tmp_path)
    with (tmp_path / "tokenizer.model").open("wb") as file:
        SentencePieceTrainer.train(sentence_iterator=texts, model_writer=file, minloglevel=2, **options)
    expected = SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model")).encode("the hat")
    assert Target.load(tmp_path).tokenizer("the hat", add_special_tokens=False).input_ids == expected
