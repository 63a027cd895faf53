"""A head that half loads decodes losslessly and slowly: so whatever does not fit must be refused by name."""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import replace

import naive
import pytest
import torch
from safetensors.torch import load_file, save_file

from jakiro.drafting import weights
from jakiro.drafting.config import HeadConfig
from jakiro.drafting.eagle3_head import load_eagle3
from jakiro.drafting.head import EagleHead, Head, JakiroHead
from jakiro.drafting.weights import load_head, save_head
from jakiro.methods.eagle2 import Eagle2
from jakiro.methods.jakiro import Jakiro
from jakiro.ui.models import load

GATE = "layers.0.mlp_moe.gate.weight"
EXPERT = "layers.0.mlp_moe.experts.0"


def saved(folder, cls: type[Head], config: HeadConfig = naive.CONFIGS["plain"]) -> Head:
    head = naive.strong(cls, config)
    save_head(folder, head)
    return head


def edit(folder, change) -> None:
    """Rewrite the folder's tensors after `change(tensors)`."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def same(one: Head, other: Head) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize("shape", naive.CONFIGS)
@pytest.mark.parametrize("cls", [EagleHead, JakiroHead])
def test_what_is_saved_is_loaded(tmp_path, target, cls: type[Head], shape: str) -> None:
    head = saved(tmp_path, cls, naive.CONFIGS[shape])
    loaded = load_head(tmp_path, target)
    assert type(loaded) is cls and same(loaded, head) and loaded.config == head.config
    assert not any(weight.requires_grad for weight in loaded.parameters())


def test_large_heads_are_sharded_below_15_mib(tmp_path, target) -> None:
    config = HeadConfig(hidden_size=1024, intermediate_size=2048, num_attention_heads=8, vocab_size=300)
    head = EagleHead(config)
    save_head(tmp_path, head)
    sizes = [file.stat().st_size for file in tmp_path.glob("*.safetensors")]
    assert len(sizes) > 1 and max(sizes) <= 15 * 2**20
    tensors = weights.read_tensors(tmp_path)
    assert all(torch.equal(tensors[key], value) for key, value in head.state_dict().items())


def test_weights_may_be_read_by_whom_the_umask_lets(tmp_path) -> None:
    before = os.umask(0o026)
    try:
        saved(tmp_path, EagleHead)
        assert os.umask(0o026) == 0o026
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o640}


def test_a_head_that_is_written_over_stays_until_the_new_one_is_there(tmp_path, target, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(weights, "SHARD_BYTES", 8000)
        old = saved(tmp_path, JakiroHead)

    def full(*arguments, **named):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(weights, "save_torch_state_dict", full)
        with pytest.raises(OSError, match="No space left"):
            saved(tmp_path, EagleHead)
    loaded = load_head(tmp_path, target)
    assert type(loaded) is JakiroHead and same(loaded, old) and loaded.config == old.config
    (tmp_path / "README.md").write_text("mine")
    new = saved(tmp_path, EagleHead)
    assert same(load_head(tmp_path, target), new)
    assert {file.name for file in tmp_path.iterdir()} == {"README.md", "config.json", "model.safetensors"}


def test_what_a_killed_process_left_beside_a_head_is_no_head_and_goes(tmp_path, target) -> None:
    left, written = tmp_path / ".new-abcdefgh", tmp_path / ".new-ijklmnop"
    for folder in (left, written):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    os.utime(left, (0, 0))
    saved(tmp_path, EagleHead)
    assert not left.exists() and written.exists()  # which another process may be writing


def test_shards_and_pickles_are_read(tmp_path, target, monkeypatch) -> None:
    monkeypatch.setattr(weights, "SHARD_BYTES", 8000)
    head = saved(tmp_path, JakiroHead)
    assert (tmp_path / "model.safetensors.index.json").is_file()
    assert same(load_head(tmp_path, target), head)
    shard = sorted(tmp_path.glob("model-*.safetensors"))[0]
    shard.unlink()
    with pytest.raises(FileNotFoundError, match=shard.name):
        load_head(tmp_path, target)
    for file in tmp_path.glob("model*"):
        file.unlink()
    extra = {"embed_tokens.weight": torch.zeros(300, 32)}
    torch.save({**head.state_dict(), **extra}, tmp_path / "pytorch_model.bin")
    assert same(load_head(tmp_path, target), head)


@pytest.mark.parametrize("prefix", ["model.", "module.", "module.model."])
def test_prefixes_frequencies_and_shards_of_pickles_are_read(tmp_path, target, prefix) -> None:
    head = saved(tmp_path, EagleHead)
    (tmp_path / "model.safetensors").unlink()
    tensors = {prefix + key: tensor for key, tensor in head.state_dict().items()}
    tensors[f"{prefix}layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    files = {key: f"pytorch_model-{at % 2}.bin" for at, key in enumerate(tensors)}
    for file in {*files.values()}:
        torch.save({key: tensors[key] for key in tensors if files[key] == file}, tmp_path / file)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    assert same(load_head(tmp_path, target), head)
    torch.save({**tensors, "fc.weight": torch.ones(32, 64)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"mod(el|ule)\.fc.weight is not expected"):
        load_head(tmp_path, target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda own: own, ""),
        (lambda own: own.half(), ""),
        (lambda own: torch.cat([own, torch.zeros(20, 32)]), ""),
        (lambda own: own.index_fill(0, torch.arange(100), 0.0), ""),
        (lambda own: own.roll(1, 0), "its copy of the embedding is another model's (cosine "),
        (lambda own: own[:, :16], "its copy of the embedding has shape [300, 16]"),
    ],
)
def test_a_copy_of_another_embedding_is_warned_of(tmp_path, target, heads, caplog, change, said: str) -> None:
    """A head that was made for another model of the same sizes fits otherwise."""
    own = target.model.get_input_embeddings().weight
    saved(tmp_path, EagleHead)
    shutil.copytree(heads["eagle3"], tmp_path / "eagle3")
    for folder, read in ((tmp_path, load_head), (tmp_path / "eagle3", load_eagle3)):
        caplog.clear()
        edit(folder, lambda tensors: tensors.update({"embed_tokens.weight": change(own).clone()}))
        read(folder, target)
        assert [one.getMessage().startswith(f"{folder}: {said}") for one in caplog.records] == [True] * bool(said)
        assert caplog.text.count("was it made for tiny?") == bool(said)


def test_inner_width_of_experts_comes_from_the_checkpoint(tmp_path, target) -> None:
    """Published configs do not say it."""
    head = saved(tmp_path, JakiroHead, naive.CONFIGS["grouped"])
    raw = json.loads((tmp_path / "config.json").read_text())
    del raw["expert_intermediate_size"]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert same(load_head(tmp_path, target), head)


def test_heads_that_share_the_width_do_so_whatever_is_said(tmp_path, target) -> None:
    """EAGLE's first code asks for no head_dim, which a config.json may have from its target."""
    head = saved(tmp_path, EagleHead)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | {"head_dim": 16}))
    assert same(load_head(tmp_path, target), head)


@pytest.mark.parametrize("shape", ["plain", "grouped"])
@pytest.mark.parametrize("said", [{"bias": True, "qkv_bias": False}, {"bias": False, "qkv_bias": True}, {"bias": None}])
@pytest.mark.parametrize("cls", [EagleHead, JakiroHead])
def test_biases_are_those_of_the_file(tmp_path, target, cls, shape, said) -> None:
    """Whatever config.json says of them."""
    head = saved(tmp_path, cls, naive.CONFIGS[shape])
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | said))
    loaded = load_head(tmp_path, target)
    assert same(loaded, head) and loaded.config == head.config


def test_weights_are_cast_to_the_target(tmp_path, target) -> None:
    head = naive.strong(EagleHead).bfloat16()
    save_head(tmp_path, head)
    assert {weight.dtype for weight in load_head(tmp_path, target).parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("cls", "change", "message"),
    [
        (EagleHead, lambda t: t.pop("fc.weight"), "fc.weight is missing"),
        (EagleHead, lambda t: t.update({"fc.bias": torch.ones(31)}), r"fc.bias has shape \[31\], expected \[32\]"),
        (
            EagleHead,
            lambda t: t.update({"layers.0.self_attn.k_proj.bias": torch.ones(32)}),
            "q_proj.bias is missing; .*v_proj.bias is missing",
        ),
        (EagleHead, lambda t: t.update({"norm.weight": torch.ones(32)}), "norm.weight is not expected"),
        (EagleHead, lambda t: t.update({"fc.weight": torch.ones(32, 9)}), r"fc.weight has shape \[32, 9\].*\[32, 64\]"),
        (EagleHead, lambda t: t.update({"midlayer.hidden_norm.weight": torch.ones(2)}), "EAGLE-3"),
        (JakiroHead, lambda t: t.update({GATE: torch.ones(2, 32)}), r"Jakiro\* head"),
        (JakiroHead, lambda t: t.update({GATE: torch.ones(5, 32)}), "5 rows"),
        (JakiroHead, lambda t: t.update({f"{EXPERT}.fc.weight": torch.ones(8, 32)}), "GELU experts"),
        (JakiroHead, lambda t: t.pop(f"{EXPERT}.gate_proj.weight"), f"{EXPERT}.gate_proj.weight is missing"),
        (
            JakiroHead,
            lambda t: t.update({f"{EXPERT}.up_proj.weight": torch.ones(8, 32)}),
            r"up_proj.weight has.*\[8, 32",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, target, cls, change, message: str) -> None:
    saved(tmp_path, cls)
    edit(tmp_path, change)
    with pytest.raises(ValueError, match=message) as error:
        load_head(tmp_path, target)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"hidden_size": 64}, "hidden_size 64; tiny has 32"), ({"vocab_size": 7}, "vocab_size 7; tiny has 300")],
)
def test_a_head_for_another_target_is_refused(tmp_path, target, changes: dict, message: str) -> None:
    save_head(tmp_path, EagleHead(replace(naive.CONFIGS["plain"], **changes)))
    with pytest.raises(ValueError, match=message):
        load_head(tmp_path, target)


def test_methods_refuse_each_others_heads(tmp_path, target, monkeypatch) -> None:
    saved(tmp_path / "eagle2", EagleHead)
    saved(tmp_path / "jakiro", JakiroHead)
    monkeypatch.setattr(target, "heads", {"eagle2": tmp_path / "jakiro", "jakiro": tmp_path / "eagle2"})
    with pytest.raises(ValueError, match="kind Jakiro; this method needs one of kind EAGLE"):
        Eagle2().load(target)
    with pytest.raises(ValueError, match="kind EAGLE; this method needs one of kind Jakiro"):
        Jakiro().load(target)


def test_files_that_are_absent_or_damaged_are_named(tmp_path, target) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_head(tmp_path, target)
    saved(tmp_path, EagleHead)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        load_head(tmp_path, target)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"neither model\.safetensors nor"):
        load_head(tmp_path, target)
    (tmp_path / "pytorch_model.bin").write_bytes(b"not a pickle")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read"):
        load_head(tmp_path, target)
    torch.save({"fc.weight": torch.ones(4000)}, tmp_path / "pytorch_model.bin")
    whole = (tmp_path / "pytorch_model.bin").read_bytes()
    for part in range(1, 10):  # torch says so in several ways
        (tmp_path / "pytorch_model.bin").write_bytes(whole[: len(whole) * part // 10])
        with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read"):
            load_head(tmp_path, target)
    for other in ([1, 2], {"fc.weight": [1.0]}):
        torch.save(other, tmp_path / "pytorch_model.bin")
        with pytest.raises(ValueError, match=r"pytorch_model\.bin does not hold tensors by name"):
            load_head(tmp_path, target)
    for text in ("{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"fc.weight": 1}}'):
        (tmp_path / "model.safetensors.index.json").write_text(text)
        with pytest.raises(ValueError, match=r"index\.json does not say which file a tensor is in"):
            load_head(tmp_path, target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "no object"),
        ({"transformer_layer_config": {}}, "it is in the format of speculators: use a head in the layout of EAGLE"),
        ({"transformer_layer_config": {}, "speculators_model_type": "eagle3"}, "give it as --head eagle3=DIR"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, "by kinds of layers (full_attention)"),
        ({"rope_scaling": "linear"}, "rope scaling is 'linear'"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a whole number of at least 1 and below 2**31, not 0"),
        ({"hidden_size": 32.0}, "hidden_size must be a whole number of at least 1 and below 2**31, not 32.0"),
        ({"bias": "false"}, "bias must be true or false, not 'false'"),
        ({"rms_norm_eps": 0}, "rms_norm_eps must be a number above 0, not 0"),
        ({"max_position_embeddings": "x"}, "max_position_embeddings must be a whole number of at least 1"),
        ({"num_local_experts": "3"}, "num_local_experts is '3'; a head has none, or 2 to 999"),
        ({"rms_norm_eps": []}, "rms_norm_eps must be a number above 0, not []"),
        ({"rope_theta": "x"}, "rope_theta must be a number above 0, not 'x'"),
        ({"rope_theta": 0}, "rope_theta must be a number above 0, not 0"),
    ],
)
def test_a_config_that_is_none_of_a_head_is_named(tmp_path, target, change, message: str) -> None:
    saved(tmp_path, EagleHead)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change if change else change))
    with pytest.raises(ValueError, match=r"config\.json: ") as error:
        load_head(tmp_path, target)
    assert message in str(error.value)


def test_a_head_that_fails_in_its_own_way_leaves_the_other_methods(target, monkeypatch) -> None:
    monkeypatch.setattr(Jakiro, "load", lambda *_: {}["odd"])
    loaded = load(target)
    assert "eagle2" in loaded.makers and loaded.missing == {"jakiro": "KeyError: 'odd'"}


def test_a_missing_head_is_said_with_the_remedy(target, monkeypatch) -> None:
    assert Eagle2().unavailable(target) == "" == Jakiro().unavailable(target)
    monkeypatch.setattr(target, "heads", {})
    assert Eagle2().unavailable(target) == (
        "no eagle2 head for this target: put one into the target's folder as eagle2/, or pass --head eagle2=DIR"
    )
    assert "--head jakiro=DIR" in Jakiro().unavailable(target)
