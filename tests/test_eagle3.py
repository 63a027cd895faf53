"""The EAGLE-3 head: drafts as a plain causal run has them, strict loading, what it reads of the target."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace

import naive
import naive_eagle3
import pytest
import tape
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_model

from jakiro import programs
from jakiro.drafter import Context
from jakiro.drafting.eagle3 import FusedEagle3
from jakiro.drafting.eagle3_config import Eagle3Config
from jakiro.drafting.eagle3_head import layers, load_eagle3
from jakiro.drafting.sizes import TreeSettings
from jakiro.engine import record
from jakiro.methods import METHODS
from jakiro.methods.eagle3 import Eagle3Drafter
from jakiro.target import Target
from jakiro.tree import LOWEST
from jakiro.verify import GREEDY, Sampling

PROMPT = [5, 17, 3, 250, 99, 41]
SHAPES = {
    "plain": {},
    "wider heads": {"head_dim": 16, "rope_theta": 100.0, "rms_norm_eps": 0.1},
    "heads that do not share the width": {"num_attention_heads": 6, "head_dim": 10},
    "the whole vocabulary": {"draft_vocab_size": 300},
    "narrower than the target": {"hidden_size": 24, "target_hidden_size": 32},
    "biases": {"attention_bias": True},
    "one shared key": {"num_attention_heads": 8, "num_key_value_heads": 1},
    "EAGLE-3.1": {"fc_norm": True, "norm_output": True},
    "vLLM's speculators": {"norm_before_fc": True, "norm_before_residual": True, "norm_output": True},
    "norms of a narrower one": {"fc_norm": True, "norm_output": True, "hidden_size": 24, "target_hidden_size": 32},
    "queries and keys normed": {"qk_norm": True},
    "four layers, the last one's output": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6, 9], "fc_norm": True},
    "one layer": {
        "eagle_aux_hidden_state_layer_ids": [5],
        "norm_before_fc": True,
        "hidden_size": 24,
        "target_hidden_size": 32,
    },
    "an embedding of its own": {"embed_requires_grad": True},
}


@pytest.fixture(scope="module")
def deep() -> Target:
    """Its three layers lie apart."""
    target = Target.wrap(tiny_model(num_hidden_layers=9), name="deep")
    target.ends = frozenset()
    return target


@pytest.mark.parametrize(("temperature", "coupled"), [(1.0, False), (0.5, False), (0.5, True)])
@pytest.mark.parametrize("shape", SHAPES)
def test_trees_are_those_of_plain_causal_runs(deep, tmp_path, shape, temperature, coupled):
    """Fed round by round, as the target's features come."""
    config = naive_eagle3.config(**SHAPES[shape])
    tensors = naive_eagle3.save(tmp_path, config)
    settings = TreeSettings(4, 4, 30, draft_temperature=temperature, coupled=coupled)
    drafter = Eagle3Drafter(FusedEagle3(load_eagle3(tmp_path, deep)), deep, settings)
    assert drafter.reads == tuple(config.get("eagle_aux_hidden_state_layer_ids", (2, 4, 6)))
    sampling = Sampling(0.9, seed=2)
    run = record(deep, drafter, PROMPT, 12, sampling)
    asked = temperature, sampling if coupled else GREEDY
    text, at = [*PROMPT, run.first], len(PROMPT)
    for step in run.steps[:5]:
        expected = naive.draft(naive_eagle3.Oracle(config, tensors, deep, text, *asked), text[-1], settings)
        count = len(step.tree)  # fewer levels where the text is about to end
        assert step.tree.tokens == expected.tokens[:count] and step.tree.parents == expected.parents[:count]
        assert step.tree.scores == pytest.approx(expected.scores[:count], abs=1e-4)
        text += step.emitted
    assert len(text) > at + 4


RECORDED = ("plain", "norms of a narrower one", "vLLM's speculators", "queries and keys normed")


@pytest.mark.parametrize("shape", [*RECORDED, "four layers, the last one's output"])
def test_recorded_drafts_are_the_same(deep, tmp_path, monkeypatch, shape):
    naive_eagle3.save(tmp_path, naive_eagle3.config(**SHAPES[shape]))
    monkeypatch.setitem(programs._RECORDERS, "cpu", tape.record)
    recorded = Target.wrap(tiny_model(num_hidden_layers=9), name="deep")
    recorded.ends = frozenset()
    assert recorded.graphs and not recorded.no_graphs
    found = []
    for target in (deep, recorded):
        drafter = Eagle3Drafter(FusedEagle3(load_eagle3(tmp_path, target)), target, TreeSettings(4, 4, 30))
        found.append(record(target, drafter, PROMPT, 40, Sampling(0.7, seed=1)))
    one, other = found
    assert len(one.steps) > 5 and len(one.steps) == len(other.steps)
    for step, same in zip(one.steps, other.steps, strict=True):
        assert step.tree.tokens == same.tree.tokens and step.tree.parents == same.tree.parents
        assert step.tree.scores == pytest.approx(same.tree.scores, abs=1e-4) and step.emitted == same.emitted


def test_columns_are_over_the_targets_vocabulary(deep, tmp_path):
    """What the head has no word for comes after all that it has."""
    config = naive_eagle3.config()
    tensors = naive_eagle3.save(tmp_path, config)
    settings = TreeSettings(4, 3, 20)
    run = record(deep, Eagle3Drafter(FusedEagle3(load_eagle3(tmp_path, deep)), deep, settings), PROMPT, 40, Sampling())
    known = set((torch.arange(90) + tensors["d2t"]).tolist())
    step = run.steps[0]
    oracle = naive_eagle3.Oracle(config, tensors, deep, [*PROMPT, run.first])
    columns, seen = step.tree.columns, set()
    for node in range(len(step.tree)):
        assert node == 0 or step.tree.tokens[node] in known
        if columns["pick_rank"][node] is None:
            continue
        law, pick = oracle(step.tree.paths()[node][1:]).logprobs, columns["pick"][node]
        seen.add(pick in known)
        if pick in known:
            assert columns["pick_rank"][node] == int((law > law[pick]).sum())
            assert columns["pick_draft_logprob"][node] == pytest.approx(float(law[pick]), abs=1e-4)
        else:
            assert columns["pick_rank"][node] >= 90 and columns["pick_draft_logprob"][node] == LOWEST
    assert seen == {True, False}, "else this shows less than it says"


def test_inner_layers_are_read_beside_other_runs(deep):
    """A run that asks for none gets the last hidden state as before."""
    ids = torch.tensor(PROMPT)
    states = deep.model(ids[None], output_hidden_states=True).hidden_states
    inner = deep.prefill(ids, deep.new_cache(32, (2, 4, 6)))[1]
    torch.testing.assert_close(inner, torch.cat([states[at][0] for at in (2, 4, 6)], -1))
    torch.testing.assert_close(deep.prefill(ids, deep.new_cache(32))[1], states[-1][0])
    cache = deep.new_cache(32, (6, 2))
    deep.prefill(ids[:3], cache)
    found = deep.score(PROMPT[3:], [-1, 0, 1], cache)[1]
    torch.testing.assert_close(found, torch.cat([states[at][0, 3:] for at in (6, 2)], -1), atol=1e-5, rtol=1e-4)


def test_features_of_a_run_that_is_over_are_not_kept(deep):
    for reads in ((2, 4, 6), ()):
        cache = deep.new_cache(32, reads)
        deep.prefill(torch.tensor(PROMPT), cache)
        deep.score(PROMPT[3:], [-1, 0, 1], cache)
        assert not vars(deep._seen)
        deep.model(torch.tensor([PROMPT]))  # as training reads it
        assert not vars(deep._seen)


@pytest.mark.parametrize("family", ["qwen3", "mistral", "eager gemma2", "eager gpt_oss", "modernbert-decoder"])
def test_other_families_are_read(family, tmp_path):
    """Of the last no head can draft that predicts its last hidden state (`Target.check_heads`)."""
    *attention, name = family.split()
    target = Target.wrap(tiny_model(name, *attention), heads={"eagle3": tmp_path})
    target.ends = frozenset()
    naive_eagle3.save(tmp_path, naive_eagle3.config())
    method, vanilla = METHODS["eagle3"], METHODS["vanilla"]
    drafter = method.load(target)(TreeSettings(4, 3, 20))
    found = record(target, drafter, PROMPT, 24, Sampling())
    assert found.tokens == record(target, vanilla.load(target)(vanilla.defaults(target)), PROMPT, 24, Sampling()).tokens
    assert max(len(step.tree) for step in found.steps) == 20


def test_a_layer_of_either_name_and_copies_are_read(deep, tmp_path):
    tensors = naive_eagle3.save(tmp_path, naive_eagle3.config())
    first = load_eagle3(tmp_path, deep)
    renamed = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items() if name != "t2d"}
    save_file(renamed | {"embed_tokens.weight": torch.zeros(300, 32)}, tmp_path / "model.safetensors")
    again = load_eagle3(tmp_path, deep)
    prefixed = {name if name.startswith("lm_head") else f"model.{name}": one for name, one in renamed.items()}
    save_file(prefixed, tmp_path / "model.safetensors")
    one = first.state_dict()
    for other in (again.state_dict(), load_eagle3(tmp_path, deep).state_dict()):
        assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert not hasattr(again, "embed_tokens"), "as wide as the target: its embedding is the target's"


def test_a_head_by_speculators_is_the_same_head(deep, tmp_path):
    """Its config.json has the layer by itself, and says what is normed."""
    plain = naive_eagle3.config(**SHAPES["vLLM's speculators"], sliding_window=512)
    tensors = naive_eagle3.save(tmp_path / "plain", plain)
    renamed = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps(naive_eagle3.by_speculators(plain)))
    save_file(renamed, tmp_path / "other" / "model.safetensors")
    one, other = (load_eagle3(tmp_path / name, deep) for name in ("plain", "other"))
    assert replace(one.config, by_inputs=True) == other.config and other.config.norm_output
    one, other = one.state_dict(), other.state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("vocab", [298, 302])
def test_a_vocabulary_may_be_padded_otherwise(deep, tmp_path, vocab):
    """As that of SpecForge's head for Gemma 3 1B, which says 262145 where the target has 262144."""
    naive_eagle3.save(tmp_path, naive_eagle3.config(vocab_size=vocab))
    head = load_eagle3(tmp_path, deep)
    assert head.config.vocab_size == len(head.t2d) == 300 and head.t2d[head.tokens].all()


def test_layers_of_the_target_may_be_said_to_be_the_heads(deep, tmp_path):
    """As AngelSlim's config for Qwen2.5-7B does, in which 28 are beside a draft_vocab_size."""
    naive_eagle3.save(tmp_path, naive_eagle3.config(num_hidden_layers=28))
    assert load_eagle3(tmp_path, deep).config == Eagle3Config.from_json(tmp_path / "config.json")


def test_a_head_by_deepspec_is_the_same_head(deep, tmp_path):
    """It counts five layers by their outputs, under another name, and has copies of the target's embedding."""
    named = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4, 6, 8]}
    plain = naive_eagle3.config(qk_norm=True, draft_vocab_size=300, head_dim=16, **named)
    tensors = naive_eagle3.save(tmp_path, plain)
    said = {name: one for name, one in plain.items() if name not in ("qk_norm", "draft_vocab_size", *named)}
    (tmp_path / "config.json").write_text(json.dumps(said | {"target_layer_ids": [0, 2, 3, 5, 7], "ttt_length": 7}))
    tensors = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
    tensors["embed_tokens.weight"] = deep.model.get_input_embeddings().weight.clone()
    save_file(tensors, tmp_path / "model.safetensors")
    head = load_eagle3(tmp_path, deep)
    assert layers(deep, head.config) == (1, 3, 4, 6, 8)
    (tmp_path / "config.json").write_text(head.config.to_json())
    assert Eagle3Config.from_json(tmp_path / "config.json") == head.config
    found = record(deep, Eagle3Drafter(FusedEagle3(head), deep, TreeSettings(4, 3, 20)), PROMPT, 12, Sampling())
    oracle = naive_eagle3.Oracle(plain, naive_eagle3.tensors(plain), deep, [*PROMPT, found.first])
    expected = naive.draft(oracle, found.first, TreeSettings(4, 3, 20))
    assert found.steps[0].tree.tokens == expected.tokens
    assert found.steps[0].tree.scores == pytest.approx(expected.scores, abs=1e-4)


@pytest.mark.parametrize("names", [("norm_output", "norm_before_fc"), ("return_hidden_post_norm", "norm_before_fc")])
def test_norms_may_be_said_among_what_is_eagles(deep, tmp_path, names):
    tensors = naive_eagle3.save(tmp_path, naive_eagle3.config(norm_before_fc=True))
    said = naive_eagle3.config(norm_output=False, eagle_config=dict.fromkeys(names, True))
    (tmp_path / "config.json").write_text(json.dumps(said))
    config = load_eagle3(tmp_path, deep).config
    assert config.norm_output and config.norm_before_fc and not config.norm_before_residual
    assert "input_norm.weight" in tensors


def test_a_shorter_sight_is_told(deep, tmp_path, caplog):
    """Its attention was trained on the newest tokens alone."""
    naive_eagle3.save(tmp_path, naive_eagle3.config())
    sliding = {"layer_types": ["sliding_attention"], "sliding_window": 512}
    for more, told in (
        (sliding, True),
        (sliding | {"use_sliding_window": False}, False),
        ({"sliding_window": 9}, False),
    ):
        caplog.clear()
        (tmp_path / "config.json").write_text(json.dumps(naive_eagle3.config(**more)))
        load_eagle3(tmp_path, deep)
        assert ("was made to see 512 tokens" in caplog.text) == told


def test_a_head_without_an_output_has_the_targets(deep, tmp_path):
    config = naive_eagle3.config(draft_vocab_size=300)
    naive_eagle3.save(tmp_path, config, **{"lm_head.weight": None})
    output = deep.model.get_output_embeddings().weight
    assert load_eagle3(tmp_path, deep).lm_head.weight.data_ptr() == output.data_ptr(), "it is not copied"
    naive_eagle3.save(tmp_path, naive_eagle3.config(), **{"lm_head.weight": None})
    with pytest.raises(ValueError, match=r"lm_head\.weight is missing"):
        load_eagle3(tmp_path, deep)


def test_nothing_is_kept_twice(deep, tmp_path):
    """What is decoded with holds its own products, and no head beside them."""
    naive_eagle3.save(tmp_path, naive_eagle3.config(**SHAPES["EAGLE-3.1"]))
    head = load_eagle3(tmp_path, deep)
    kept, gone = FusedEagle3(head), weakref.ref(head.midlayer.self_attn.q_proj.weight)
    del head
    gc.collect()
    assert gone() is None and kept.nbytes


def test_what_speculators_leaves_out_is_what_vllm_takes_it_for(deep, tmp_path):
    """Layers are counted by their inputs, and the residual begins with what is normed."""
    plain = naive_eagle3.config(norm_before_residual=True, eagle_aux_hidden_state_layer_ids=[1, 4, 8])
    naive_eagle3.save(tmp_path, plain)
    assert layers(deep, load_eagle3(tmp_path, deep).config) == (2, 5, 9)
    other = naive_eagle3.by_speculators(plain)
    del other["norm_before_residual"]
    (tmp_path / "config.json").write_text(json.dumps(other))
    config = load_eagle3(tmp_path, deep).config
    assert layers(deep, config) == (1, 4, 8) and config.norm_before_residual
    (tmp_path / "config.json").write_text(config.to_json())
    assert Eagle3Config.from_json(tmp_path / "config.json") == config


def test_layers_of_several_streams_are_refused(deep, monkeypatch):
    """Gemma 3n's."""
    monkeypatch.setattr(deep.model.config, "altup_num_inputs", 4, raising=False)
    with pytest.raises(
        ValueError, match="has layers of several streams, which no EAGLE-3 head reads: use another meth"
    ):
        layers(deep)


D2T = torch.zeros(90, dtype=torch.long)


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({}, {"midlayer.mlp.up_proj.weight": None}, "midlayer.mlp.up_proj.weight is missing"),
        ({}, {"lm_head.weight": torch.zeros(80, 32)}, r"lm_head.weight has shape \[80, 32\], expected \[90, 32\]"),
        ({}, {"fc.bias": torch.zeros(31)}, r"fc.bias has shape \[31\], expected \[32\]"),
        ({}, {"midlayer.self_attn.q_proj.bias": torch.zeros(32)}, "k_proj.bias is missing.*v_proj.bias is missing"),
        ({}, {"d2t": None}, "d2t is missing"),
        ({}, {"d2t": D2T + 299}, "d2t leads outside of the vocabulary"),
        ({}, {"d2t": D2T.float()}, "d2t must be 90 whole numbers; download it again"),
        ({}, {"d2t": D2T[None]}, "d2t must be 90 whole numbers"),
        ({}, {"d2t": -torch.arange(90)}, "or twice to one token"),
        ({}, {"midlayer.hidden_norm.weight": None}, "holds no EAGLE-3 head"),
        ({"vocab_size": 304}, {}, "made for a target of vocab_size 304; deep has 300"),
        ({"vocab_size": 302}, {"d2t": D2T + 299}, "d2t leads outside of the vocabulary"),
        ({"vocab_size": 301, "draft_vocab_size": 301}, {}, "made for a target of vocab_size 301; deep has 300"),
        ({"vocab_size": 301, "draft_vocab_size": 300}, {}, "made for a target of vocab_size 301; deep has 300"),
        ({"target_hidden_size": 40}, {}, "made for a target of hidden_size 40; deep has 32"),
        ({"hidden_size": 96, "target_hidden_size": 32}, {}, "hidden_size is 96, 3 times target_hidden_size"),
        ({"draft_vocab_size": 400}, {}, "draft_vocab_size is 400, and vocab_size 300"),
        ({"draft_vocab_size": "90"}, {}, "draft_vocab_size must be a whole number"),
        ({"head_dim": 7}, {}, "head_dim must be an even"),
        ({"num_attention_heads": 6}, {}, "hidden_size 32 is not 6 heads of even width"),
        ({"num_hidden_layers": 2, "draft_vocab_size": None}, {}, "num_hidden_layers is 2"),
        (
            {"num_hidden_layers": 2},
            {"layers.1.mlp.up_proj.weight": torch.ones(48, 32)},
            r"layers.1.mlp.up_proj.weight is not expected",
        ),
        ({"norm_before_fc": True}, {}, "input_norm.weight is missing"),
        ({"eagle_config": {"norm_before_fc": True}}, {}, "input_norm.weight is missing"),
        ({}, {"input_norm.weight": torch.ones(96)}, "input_norm.weight is not expected"),
        (
            {"fc_norm": True},
            {"fc_norm.0.weight": torch.ones(32)},
            r"fc_norm.1.weight is missing; fc_norm.2.weight",
        ),
        ({"fc_norm": True, "norm_before_fc": True}, {}, "norm_before_fc and fc_norm are both true"),
        ({"norm_output": "yes"}, {}, "norm_output must be true or false, not 'yes'"),
        (
            {"transformer_layer_config": {}, "speculators_model_type": "dflash"},
            {},
            "speculators_model_type is 'dflash'",
        ),
        ({"transformer_layer_config": 1}, {}, "in the format of speculators"),
        ({}, {"midlayer.self_attn.q_norm.weight": torch.ones(8)}, "k_norm.weight is missing"),
        ({"eagle_config": [1]}, {}, r"eagle_config is \[1\]"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, {}, "use_aux_hidden_state is false"),
        (
            {"eagle_aux_hidden_state_layer_ids": [2, 2, 3]},
            {},
            r"layers of deep, which has 9, .* \[2, 2, 3\]",
        ),
        ({"eagle_aux_hidden_state_layer_ids": [3, 2, 4]}, {}, r"names \[3, 2, 4\]"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 10]}, {}, r"names \[2, 4, 10\]"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 4, 9]}, {}, r"names \[1, 4, 9\]"),
        ({"eagle_aux_hidden_state_layer_ids": [-1, 4, 8]}, {}, r"names \[-1, 4, 8\]"),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1]}},
            {},
            "hidden_size is 32, 1 times target",
        ),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2.0, 3]}, {}, "must be whole numbers"),
        ({"eagle_aux_hidden_state_layer_ids": 5}, {}, "layer_ids must be whole numbers in a list, not 5"),
        ({"target_layer_ids": ["a"]}, {}, "target_layer_ids must be whole numbers in a list"),
    ],
)
def test_what_does_not_fit_is_named(deep, tmp_path, config, tensors, message):
    naive_eagle3.save(tmp_path, naive_eagle3.config(), **tensors)
    (tmp_path / "config.json").write_text(json.dumps(naive_eagle3.config(**config)))
    with pytest.raises(ValueError, match=message):
        load_eagle3(tmp_path, deep)


@pytest.mark.parametrize(
    ("named", "reads"),
    [
        ([2, 4, 6], (2, 4, 6)),
        ([1, 3, 5], (2, 4, 6)),  # the usual ones counted by their outputs
        ([1, 2, 7], (2, 3, 8)),
        ([0, 3, 8], (0, 3, 8)),
        ([3, 4, 5], (3, 4, 5)),
    ],
)
def test_layers_that_are_named_are_read(deep, tmp_path, named, reads):
    """A list that begins with 1 counts outputs; what they hold is what the head is fed with."""
    config = naive_eagle3.config(eagle_config={"eagle_aux_hidden_state_layer_ids": named}, norm_before_residual=False)
    naive_eagle3.save(tmp_path, config)
    head = load_eagle3(tmp_path, deep)
    drafter = Eagle3Drafter(FusedEagle3(head), deep, TreeSettings(4, 3, 20))
    assert layers(deep, head.config) == drafter.reads == reads
    (tmp_path / "config.json").write_text(head.config.to_json())
    assert load_eagle3(tmp_path, deep).config == head.config
    run = record(deep, drafter, PROMPT, 3, Sampling())
    states = deep.model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    fed = head.fc(torch.cat([states[layer] for layer in reads], -1))
    answer = head(deep.embed(torch.tensor([[*PROMPT[1:], run.first]])), fed)[0, -1]
    expected = head.tokens[head.logits(answer).topk(4).indices].tolist()
    assert set(run.steps[0].tree.tokens[1:5]) == set(expected)


def test_a_head_for_gpt_oss_names_layers_by_what_enters_them():
    target = Target.wrap(tiny_model("gpt_oss", "eager", num_hidden_layers=9))
    named = Eagle3Config(32, 48, 4, 300, reads=(1, 4, 7))
    assert layers(target, named) == (1, 4, 7) and layers(target) == (2, 4, 6)


def test_another_methods_head_is_refused(target, deep, tmp_path):
    with pytest.raises(ValueError, match="holds no EAGLE-3 head"):
        load_eagle3(target.heads["eagle2"], deep)
    own = Target.wrap(tiny_model(), heads={"eagle2": target.heads["eagle3"]})
    with pytest.raises(ValueError, match="holds an EAGLE-3 head: give it as --head eagle3=DIR"):
        METHODS["eagle2"].load(own)
    found = naive_eagle3.save(tmp_path, naive_eagle3.config())
    save_file({key.replace("midlayer", "layers.0"): one for key, one in found.items()}, tmp_path / "model.safetensors")
    own.heads["eagle2"] = tmp_path
    with pytest.raises(ValueError, match="holds an EAGLE-3 head: give it as --head eagle3=DIR"):
        METHODS["eagle2"].load(own)
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        load_eagle3("nowhere", deep)


def test_a_target_of_too_few_layers_is_refused(target):
    shallow = Target.wrap(tiny_model(num_hidden_layers=2), heads=target.heads, name="shallow")
    with pytest.raises(ValueError, match="shallow has 2 layers, and an EAGLE-3 head reads three"):
        METHODS["eagle3"].load(shallow)


def test_its_own_embedding_is_used_where_it_is_as_wide_as_the_head(deep, tmp_path):
    naive_eagle3.save(tmp_path, naive_eagle3.config(**SHAPES["narrower than the target"]))
    head = FusedEagle3(load_eagle3(tmp_path, deep))
    expected = load_file(tmp_path / "model.safetensors")["embed_tokens.weight"]
    assert torch.equal(head.embed(torch.tensor([7, 299])), expected[[7, 299]])
    assert Eagle3Config.from_json(tmp_path / "config.json").head_dim == 6


def test_more_candidates_are_asked_for_than_it_has_words(deep, tmp_path):
    naive_eagle3.save(tmp_path, naive_eagle3.config(draft_vocab_size=5))
    drafter = Eagle3Drafter(FusedEagle3(load_eagle3(tmp_path, deep)), deep, TreeSettings(20, 2, 60))
    assert len(drafter.draft(Context(PROMPT, torch.randn(5, 96), room=9))) == 1 + 5 + 25
