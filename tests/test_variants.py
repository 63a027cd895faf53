"""Heads and settings of one's own in one benchmark, by the command line."""

import json

import numpy as np
import pytest
import torch
from tiny import save_heads, tiny_model, tiny_tokenizer

from jakiro import files
from jakiro.__main__ import main
from jakiro.measuring import limits
from jakiro.measuring.variants import Variant, as_markdown, asked_for, folders, read
from jakiro.models import hub
from jakiro.target import Target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A target with heads, another jakiro head beside it, and prompts."""
    folder = tmp_path_factory.mktemp("target")
    tiny_model().save_pretrained(folder / "target")
    tiny_tokenizer().save_pretrained(folder / "target")
    save_heads(folder / "target")
    save_heads(folder / "others", seed=5)
    prompts = [{"id": at, "turns": [text]} for at, text in enumerate(("the ant", "an apple", "one ant"))]
    (folder / "asked.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
    return folder


def bench(folder, tmp_path, variants, *more):
    (tmp_path / "variants.json").write_text(json.dumps(variants))
    given = ["--target", folder / "target", "--prompts", folder / "asked.jsonl", "--max-new-tokens", 12]
    given += ["--variants", tmp_path / "variants.json", "--out", tmp_path / "bench.json", *more]
    return main(["bench", *map(str, given)])


def test_two_heads_of_one_method_are_compared_with_intervals(folder, tmp_path, capsys, monkeypatch):
    for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 8, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    small = {"depth": 2, "top_k": 3, "total_tokens": 6}
    asked = [
        {"label": "as it is", "method": "jakiro", "set": small},
        {"label": "mine", "method": "jakiro", "head": str(folder / "others" / "jakiro"), "set": small},
        {"label": "copies", "method": "prompt_lookup"},
    ]
    assert bench(folder, tmp_path, asked, "--limits") == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    assert {row["method"] for row in found["rows"]} == {"vanilla", "as it is", "mine", "copies"}
    assert all(row["identical"] == 1 for row in found["rows"])
    assert found["settings"]["mine"]["depth"] == 2 and set(found["limits"]["methods"]) >= {"as it is", "mine"}
    reference, *others = found["intervals"]
    assert reference["over_reference_interval"] == [1, 1] and [one["variant"] for one in others] == ["mine", "copies"]
    low, high = others[0]["tau_interval"]
    assert 1 <= low <= others[0]["tau"] <= high
    taus = {row["method"]: row["tau"] for row in found["rows"]}
    assert [one["tau"] for one in found["intervals"]] == pytest.approx([taus[one["label"]] for one in asked])
    assert "| variant | temperature | tau, 95 % interval | over as it is |" in capsys.readouterr().out
    sure = {"variant": "x", "temperature": 0, "tau": 1.93, "tau_interval": [1.86, 2.0]}
    sure |= {"over_reference": 0.984, "over_reference_interval": [0.969, 0.998], "prompts": 10}
    assert "| 1.93 (1.86 to 2.00) | 0.984 (0.969 to 0.998) |" in as_markdown([sure], "y"), "less than 1 can be seen"
    assert "too narrow" not in as_markdown([sure], "y")
    few = as_markdown([sure, sure | {"prompts": 9}], "y")
    assert few.endswith("|\n\nOf 9 prompts in all, intervals are too narrow: measure 10 or more.")


def test_a_variant_may_name_a_second_head_of_a_method(folder, tmp_path, capsys, methods_again):
    asked = [{"label": "as it is", "method": "jakiro"}, {"label": "mine", "method": "jakiro-mine"}]
    given = ["--head", f"jakiro-mine={folder / 'others' / 'jakiro'}", "--max-new-tokens", 4, "--limit", 2]
    assert bench(folder, tmp_path, asked, *given) == 0, capsys.readouterr().err
    assert json.loads((tmp_path / "bench.json").read_text())["weights"].keys() >= {"jakiro", "jakiro-mine"}


def test_two_heads_of_a_method_are_compared_with_intervals_as_variants_are(folder, tmp_path, capsys, methods_again):
    """Each kind against its first; what is drawn from is in the report, too."""
    heads = [f"--head={one}-mine={folder / 'others' / one}" for one in ("eagle2", "jakiro")]
    given = ["--target", folder / "target", *heads, "--max-new-tokens", 12, "--out", tmp_path / "bench.json"]
    assert main(["bench", *map(str, given), "--prompts", str(folder / "asked.jsonl")]) == 0
    said, found = capsys.readouterr().out, json.loads((tmp_path / "bench.json").read_text())
    assert "| over eagle2 |" in said and "| over jakiro |" in said
    pairs = [(one["variant"], one["reference"]) for one in found["intervals"]]
    assert pairs == [(f"{one}{own}", one) for one in ("eagle2", "jakiro") for own in ("", "-mine")]
    counts = {row["method"]: row["by_prompt"] for row in found["rows"]}
    own, base = (np.array([counts[name][one] for one in ("decoded", "rounds")]) for name in ("eagle2-mine", "eagle2"))
    places = np.random.default_rng(1).integers(3, size=(4000, 2))
    ratios = np.divide(*(one[0][places].sum(1) / one[1][places].sum(1) for one in (own, base)))
    low, high = found["intervals"][1]["over_reference_interval"]
    assert (low, high) == pytest.approx(tuple(np.percentile(ratios, [2.5, 97.5])), abs=0.02)
    taus = {row["method"]: row["tau"] for row in found["rows"]}
    assert low < high and found["intervals"][1]["over_reference"] == taus["eagle2-mine"] / taus["eagle2"]
    spent = {name: np.divide(one["decoded"], one["decode_s"][0]) for name, one in counts.items()}
    for base, key in (("eagle2", "speed_over_reference"), ("vanilla", "speedup")):
        single = spent["eagle2-mine"] / spent[base]  # one prompt twice is drawn in 1 of 9: beyond the edges
        assert found["intervals"][1][f"{key}_interval"] == pytest.approx([single.min(), single.max()])
    speedups = [row["speedup"] for row in found["rows"] if row["method"] == "eagle2-mine"]
    assert [found["intervals"][1]["speedup"]] == pytest.approx(speedups)
    assert "| speed-up | tokens/s over eagle2 |" in said
    assert main(["bench", *map(str, given), "--limit", "1"]) == 0, "of one prompt nothing is drawn"
    assert "over eagle2" not in capsys.readouterr().out
    assert "intervals" not in json.loads((tmp_path / "bench.json").read_text())


def test_a_file_of_variants_may_begin_with_a_byte_order_mark_but_not_nest_without_end(tmp_path):
    path = tmp_path / "variants.json"
    path.write_text("\ufeff" + json.dumps([MINE, MINE | {"label": "b"}]), encoding="utf-8")
    assert [one.label for one in read(path)] == ["mine", "b"]
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"variants\.json is no list of variants"):
        read(path)


def test_each_variant_has_its_own_head_and_the_targets_stay(folder):
    target = Target.load(folder / "target")
    named, other = dict(target.heads), folder / "others" / "jakiro"
    asked = [Variant("as it is", "jakiro"), Variant("mine", "jakiro", str(other)), Variant("again", "jakiro")]
    made = asked_for(target, asked, folders(target, asked))
    own, mine, again = (make(settings).head.fc.weight for make, settings in list(made.values())[1:])
    assert torch.equal(own, again) and not torch.equal(own, mine)
    assert target.heads == named


def test_variants_of_one_head_hold_it_once(folder):
    asked = [Variant("deep", "jakiro", set={"depth": 4}), Variant("flat", "jakiro", set={"depth": 2})]
    target = Target.load(folder / "target")
    made = asked_for(target, asked, folders(target, asked))
    deep, flat = (make(settings).head for make, settings in list(made.values())[1:])
    assert deep is flat


def test_the_hub_is_asked_once_for_a_head(folder, tmp_path, monkeypatch):
    """Asked again it may give a later one, whose fingerprint the report would have then."""
    asked = [{"label": str(depth), "method": "jakiro", "head": "o/j", "set": {"depth": depth}} for depth in (2, 3)]
    local, names = hub.local, []

    def given(name):
        names.append(str(name))
        return folder / "others" / "jakiro" if str(name) == "o/j" else local(name)

    monkeypatch.setattr(hub, "local", given)
    assert bench(folder, tmp_path, asked, "--limit", 2) == 0
    assert names.count("o/j") == 1


def test_an_interrupted_run_of_another_method_under_a_label_is_not_gone_on_with(folder, tmp_path, capsys, monkeypatch):
    """EAGLE-2 and EAGLE-3 have the same settings, and neither variant names a head."""
    asked = [{"label": "one", "method": "eagle2"}, {"label": "other", "method": "jakiro"}]

    def full_disk(path, text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full_disk)
        assert bench(folder, tmp_path, asked) == 2
    assert (tmp_path / "bench.json.partial").exists() and capsys.readouterr()
    assert bench(folder, tmp_path, [asked[0] | {"method": "eagle3"}, asked[1]]) == 2
    assert "holds the beginning of another benchmark" in capsys.readouterr().err
    assert bench(folder, tmp_path, asked) == 0


MINE = {"label": "mine", "method": "jakiro"}


@pytest.mark.parametrize(
    ("variants", "more", "message"),
    [
        ([MINE], (), "has 1 variants: name at least two"),
        ([MINE, MINE], (), "the label 'mine' is taken"),
        ([MINE, MINE | {"label": "vanilla"}], (), "the label 'vanilla' is taken"),
        ([MINE, MINE | {"label": ""}], (), "the label '' is taken"),
        ([MINE, MINE | {"label": "target"}], (), "the label 'target' is taken"),
        ([MINE, MINE | {"label": "hf_prompt_lookup"}], ("--peers",), "the label 'hf_prompt_lookup' is taken"),
        ([MINE, {"label": "b"}], (), "is no list of variants: variant 2 has no 'method'"),
        (
            [MINE | {"heads": "a"}, MINE],
            (),
            "variant 1 has the unknown field 'heads'; known are label, method, head, set",
        ),
        ([MINE, "mine"], (), "variant 2 is 'mine', expected an object with label, method"),
        ({"mine": MINE}, (), "is no list of variants: write [{"),
        ([MINE, {"label": "b", "method": "other"}], (), "unknown method 'other'"),
        ([MINE, MINE | {"label": "b", "set": [1]}], (), "variant 2: set is [1]: it should be a valid dictionary"),
        ([MINE, MINE | {"label": "b", "set": {"size": 3}}], (), "variant 2: unknown setting 'size'"),
        ([MINE, MINE | {"label": "b", "head": "nowhere"}], (), "variant 'b': "),
        ([MINE, {"label": "b", "method": "prompt_lookup", "head": "a"}], (), "variant 2: prompt_lookup takes no head"),
        ([MINE, MINE | {"label": "b"}], ("--set", "depth=3"), "there is no --set"),
        ([MINE, MINE | {"label": "b"}], ("--methods", "jakiro"), "there is no --methods"),
        ([MINE, MINE | {"label": "b"}], ("--max-new-tokens", 1), "--max-new-tokens must be at least 2"),
        ([MINE, MINE | {"label": "b"}], ("--limit", 1), "has one prompt, from which no interval can be drawn"),
    ],
)
def test_what_cannot_be_compared_is_named_before_anything_is_measured(
    folder, tmp_path, capsys, variants, more, message
):
    assert bench(folder, tmp_path, variants, *more) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["variants.json"]  # no journal either
