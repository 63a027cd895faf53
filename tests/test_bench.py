"""The benchmark's numbers against traces counted by hand, and its prompts and peers."""

import json
import os
from functools import partial

import pytest
from tiny import save_heads, tiny_model
from transformers import GenerationConfig

from jakiro import bench, peers
from jakiro import report as tables
from jakiro.engine import record
from jakiro.peers import generate_peers
from jakiro.target import Target
from jakiro.text import encode
from jakiro.verify import Sampling

GREEDY = Sampling()
QUESTIONS = {"chat": ["the man ran", "an ant and the hat"], "maths": ["1 2 3 1 2 3 1 2"]}


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    for task, questions in QUESTIONS.items():
        lines = [json.dumps({"id": f"{task}/{i}", "turns": [text, "ignored"]}) for i, text in enumerate(questions)]
        (folder / f"{task}.jsonl").write_text("\n".join(lines) + "\n")
    return [folder / f"{task}.jsonl" for task in QUESTIONS]


@pytest.fixture(scope="module")
def report(target, prompts):
    methods = bench.load_methods(target, ["vanilla", "prompt_lookup", "eagle2", "jakiro"], {"depth": "3"})
    return bench.run(target, bench.read_prompts(prompts), methods, 12, [GREEDY], partial(generate_peers, target))


def test_rows_cover_every_task_and_method(report):
    names = {
        "vanilla",
        "prompt_lookup",
        "eagle2",
        "jakiro",
        "hf_generate_dynamic",
        "hf_generate_static",
        "hf_prompt_lookup",
    }
    assert {(row["task"], row["method"]) for row in report["rows"]} == {
        (task, name) for task in QUESTIONS for name in names
    }
    assert report["schema"] == "jakiro-bench/1"
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["settings"]["eagle2"]["depth"] == report["settings"]["jakiro"]["depth"] == 3


def test_every_decoder_gives_vanillas_ids(report):
    assert {row["identical"] for row in report["rows"]} == {1.0}


def test_counts_are_those_of_the_traces(target, prompts, report):
    [row] = [row for row in report["rows"] if (row["task"], row["method"]) == ("chat", "eagle2")]
    make, settings = bench.load_methods(target, ["eagle2"], {"depth": "3"})["eagle2"]
    runs = [record(target, make(settings), encode(target.tokenizer, text), 12, GREEDY) for text in QUESTIONS["chat"]]
    accepted = [len(step.accepted) for run in runs for step in run.steps]
    assert row["prompts"] == len(runs) and row["tokens"] == 12 * len(runs) and row["rounds"] == len(accepted)
    assert row["tau"] == pytest.approx(1 + sum(accepted) / len(accepted))
    expected = [sum(count >= depth for count in accepted) / len(accepted) for depth in (1, 2, 3)]
    assert row["acceptance_rate_per_position"] == pytest.approx(expected)


def test_speed_is_decoded_tokens_over_the_rounds_and_speedup_is_against_vanilla(report):
    rows = {(row["task"], row["method"]): row for row in report["rows"]}
    for (task, method), row in rows.items():
        assert row["speedup"] == pytest.approx(row["tokens_per_s"] / rows[task, "vanilla"]["tokens_per_s"])
        if not method.startswith("hf_"):
            seconds = row["draft_s"] + row["verify_s"] + row["overhead_s"]
            assert row["tokens_per_s"] == pytest.approx((row["tokens"] - row["prompts"]) / seconds)


def test_markdown_has_a_line_a_task_and_the_means(report):
    lines = tables.as_markdown(report).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [*sorted(QUESTIONS), "mean"]
    assert "1.00×, τ 1.00" in lines[-1]


def test_an_interrupted_run_goes_on_and_gives_the_same_counts(target, prompts, tmp_path, monkeypatch):
    methods = bench.load_methods(target, ["vanilla", "eagle2"], {})
    work = (target, bench.read_prompts(prompts), methods, 8, [GREEDY, Sampling(1.0)], None, 2)
    whole = bench.run(*work)
    journal = bench.open_journal(tmp_path / "bench.json", *work)
    add, calls = journal.add, []

    def broken(key, samples):
        calls.append(key)
        if len(calls) == 4:
            raise KeyboardInterrupt
        add(key, samples)

    monkeypatch.setattr(journal, "add", broken)
    with pytest.raises(KeyboardInterrupt):
        bench.run(*work, journal)
    again = bench.open_journal(tmp_path / "bench.json", *work)
    assert len(again) == 3
    report = bench.run(*work, again)
    assert len(again) == 3 * 2 * 2  # prompts, repeats, temperatures
    counts = ("task", "method", "temperature", "repeats", "tokens", "rounds", "tau", "identical")
    assert [[row[name] for name in counts] for row in report["rows"]] == [
        [row[name] for name in counts] for row in whole["rows"]
    ]


def test_a_small_model_assists(target, tmp_path, report):
    tiny_model(num_hidden_layers=1, seed=3).save_pretrained(tmp_path / "assistant")
    own = Target.wrap(target.model, target.tokenizer, {"assistant": tmp_path / "assistant"})
    own.ends = target.ends
    ids = encode(target.tokenizer, "the man ran")
    found = generate_peers(own, GREEDY)["hf_assisted"](ids, 12)
    assert found.ids == generate_peers(target, GREEDY)["hf_generate_dynamic"](ids, 12).ids


def test_an_assistant_of_another_vocabulary_is_refused(target, tmp_path):
    tiny_model(vocab_size=310).save_pretrained(tmp_path / "assistant")
    own = Target.wrap(target.model, target.tokenizer, {"assistant": tmp_path / "assistant"})
    with pytest.raises(ValueError, match="has 310 tokens, the target 300: it cannot assist"):
        generate_peers(own, GREEDY)


def test_without_vanilla_there_is_no_speedup(target, prompts):
    methods = bench.load_methods(target, ["prompt_lookup"], {})
    report = bench.run(target, bench.read_prompts(prompts, limit=1), methods, 6, [GREEDY])
    assert {row["speedup"] for row in report["rows"]} == {row["identical"] for row in report["rows"]} == {None}


@pytest.mark.parametrize("line", ["not json", '{"id": 1}', '{"turns": []}', "[1]"])
def test_a_bad_prompt_line_is_named(tmp_path, line):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"turns": ["fine"]}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2"):
        bench.read_prompts([path])


def test_settings_must_belong_to_a_method(target):
    with pytest.raises(ValueError, match="no method here has the setting deepness"):
        bench.load_methods(target, ["vanilla", "eagle2"], {"deepness": "3"})
    with pytest.raises(ValueError, match="unknown method 'eagle3'; known: vanilla"):
        bench.load_methods(target, ["eagle3"], {})


def test_a_run_is_held_against_vanilla_wherever_that_is_named(target, prompts):
    methods = bench.load_methods(target, ["eagle2", "vanilla"], {})
    report = bench.run(target, bench.read_prompts(prompts, limit=1), methods, 6, [GREEDY])
    assert {row["identical"] for row in report["rows"]} == {1.0}
    assert list(report["settings"]) == ["eagle2", "vanilla"]


@pytest.mark.parametrize("name", ["hf_generate_dynamic", "hf_generate_static", "hf_prompt_lookup"])
def test_peers_decode_by_our_law_whatever_the_checkpoint_asks_for(tokenizer, name):
    own = Target.wrap(tiny_model(), tokenizer, graphs=False)
    ids = encode(tokenizer, "the man ran")
    make, settings = bench.load_methods(own, ["vanilla"], {})["vanilla"]
    text = record(own, make(settings), ids, 24, GREEDY).tokens
    config = GenerationConfig(repetition_penalty=9.0, no_repeat_ngram_size=1, suppress_tokens=[text[0]], min_p=0.9)
    own.model.generation_config = config
    assert generate_peers(own, GREEDY)[name](ids, 24).ids == text
    assert own.model.generation_config is config


def test_peers_sample_from_all_tokens_whatever_the_checkpoint_asks_for(tokenizer):
    own = Target.wrap(tiny_model(), tokenizer, graphs=False)
    own.model.generation_config = GenerationConfig(min_p=1.0)  # leaves the likeliest token alone
    generate = generate_peers(own, Sampling(2.0))["hf_generate_dynamic"]
    assert len({tuple(generate([1, 2, 3], 8).ids) for _ in range(3)}) > 1


def test_peers_are_timed_when_the_device_is_done(target, monkeypatch):
    """The clock that waits for the device is read at the start, at the first tokens and at the end."""
    ticks = iter(range(3))
    monkeypatch.setattr(peers, "stopwatch", lambda device: lambda: float(next(ticks)))
    found = generate_peers(target, GREEDY)["hf_generate_dynamic"]([1, 2, 3], 6)
    assert (found.prefill_s, found.decode_s) == (1.0, 1.0) and next(ticks, None) is None


@pytest.mark.parametrize("part", ["target", "eagle2"])
def test_an_interrupted_run_of_other_weights_is_not_gone_on_with(tokenizer, prompts, tmp_path, part):
    """Of the same name: elsewhere, or changed meanwhile."""

    def opened(folder):
        loaded = Target.load(folder / "small", heads={"eagle2": folder / "eagle2"}, graphs=False)
        methods = bench.load_methods(loaded, ["vanilla", "eagle2"], {})
        work = (loaded, bench.read_prompts(prompts), methods, 8, [GREEDY], None, 1)
        return bench.open_journal(tmp_path / "bench.json", *work)

    for name in ("here", "there"):
        tiny_model().save_pretrained(tmp_path / name / "small")
        tokenizer.save_pretrained(tmp_path / name / "small")
        save_heads(tmp_path / name)
    opened(tmp_path / "here")
    opened(tmp_path / "here")
    with pytest.raises(ValueError, match="beginning of another benchmark"):
        opened(tmp_path / "there")
    os.utime(tmp_path / "here" / {"target": "small"}.get(part, part) / "model.safetensors", ns=(1, 1))
    with pytest.raises(ValueError, match="beginning of another benchmark"):
        opened(tmp_path / "here")


def test_prompt_lines_end_where_json_lines_do(tmp_path):
    """U+2028, U+2029 and U+0085 may stand in a JSON string as they are; blank lines count for messages alone."""
    path = tmp_path / "odd.jsonl"
    path.write_text('{"turns": ["a\u2028b\u2029c\x85d"]}\n\n{"turns": ["e"]}\n', encoding="utf-8")
    assert [prompt.text for prompt in bench.read_prompts([path], limit=2)] == ["a\u2028b\u2029c\x85d", "e"]
    with path.open("a", encoding="utf-8") as file:
        file.write("{}\n")
    with pytest.raises(ValueError, match=r"odd\.jsonl, line 4"):
        bench.read_prompts([path])
