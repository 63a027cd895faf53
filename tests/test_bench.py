"""The benchmark's numbers against traces counted by hand, and its prompts and peers."""

import copy
import json
import os

import pytest
from tiny import save_heads, tiny_model
from torch._dynamo.utils import counters
from transformers import CompileConfig, GenerationConfig

from jakiro import bench
from jakiro.engine import record
from jakiro.measuring import peers, tables
from jakiro.measuring.peers import generate_peers
from jakiro.measuring.prompts import Prompt, read_prompts
from jakiro.target import Target
from jakiro.text import encode
from jakiro.verify import GREEDY, Sampling

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
    return bench.Benchmark(target, read_prompts(prompts), methods, 12, [GREEDY], generate_peers(target)).run()


def test_rows_cover_every_task_and_method(report):
    names = {
        "vanilla",
        "prompt_lookup",
        "eagle2",
        "jakiro",
        "hf_generate_dynamic",
        "hf_generate_static",
        "hf_prompt_lookup",
        "hf_assisted",
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
    work = bench.Benchmark(target, read_prompts(prompts), methods, 8, [GREEDY, Sampling(1.0)], repeats=2)
    whole = work.run()
    journal = work.open_journal(tmp_path / "bench.json")
    add, calls = journal.add, []

    def broken(key, samples):
        calls.append(key)
        if len(calls) == 4:
            raise KeyboardInterrupt
        add(key, samples)

    monkeypatch.setattr(journal, "add", broken)
    with pytest.raises(KeyboardInterrupt):
        work.run(journal)
    again = work.open_journal(tmp_path / "bench.json")
    assert len(again) == 3
    report = work.run(again)
    assert len(again) == 3 * 2 * 2  # prompts, repeats, temperatures
    counts = ("task", "method", "temperature", "repeats", "tokens", "rounds", "tau", "identical")
    assert [[row[name] for name in counts] for row in report["rows"]] == [
        [row[name] for name in counts] for row in whole["rows"]
    ]


def test_a_small_model_assists(target, tmp_path, report):
    tiny_model(num_hidden_layers=1, seed=3).save_pretrained(tmp_path / "draft_model")
    own = Target.wrap(target.model, target.tokenizer, {"draft_model": tmp_path / "draft_model"})
    own.ends = target.ends
    ids = encode(target.tokenizer, "the man ran")
    found = generate_peers(own)["hf_assisted"](ids, 12, GREEDY)
    assert found.ids == generate_peers(target)["hf_generate_dynamic"](ids, 12, GREEDY).ids


def test_an_assistant_of_another_vocabulary_is_left_out(target, tmp_path, caplog):
    tiny_model(vocab_size=310).save_pretrained(tmp_path / "draft_model")
    own = Target.wrap(target.model, target.tokenizer, {"draft_model": tmp_path / "draft_model"})
    assert "hf_assisted" not in generate_peers(own)
    assert "without hf_assisted" in caplog.text and "has 310 ids, the target 300" in caplog.text


def test_an_assistant_that_is_no_model_is_named(target, tmp_path):
    own = Target.wrap(target.model, target.tokenizer, {"draft_model": tmp_path / "nowhere"})
    with pytest.raises(FileNotFoundError, match="no model in "):
        generate_peers(own)


def test_without_vanilla_there_is_no_speedup(target, prompts):
    methods = bench.load_methods(target, ["prompt_lookup"], {})
    report = bench.Benchmark(target, read_prompts(prompts, limit=1), methods, 6, [GREEDY]).run()
    assert {row["speedup"] for row in report["rows"]} == {row["identical"] for row in report["rows"]} == {None}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("not json", "is not JSON"),
        ('{"id": 1}', "has no 'turns'"),
        ("[1]", "has no 'turns'"),
        *((f'{{"turns": {turns}}}', "has no question at the beg") for turns in ("[]", '"What?"', '[""]', "[5]")),
        ('{"turns": ' + "[" * 100_000, "is not JSON"),
        (r'{"turns": ["half \ud83d"]}', "has half a character"),
    ],
)
def test_a_bad_prompt_line_is_named(tmp_path, line, why):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"turns": ["fine"]}\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"bad\.jsonl, line 2 {why}.*: write {{"):
        read_prompts([path])


def test_prompts_may_begin_with_a_byte_order_mark_and_no_file_of_them_is_empty(tmp_path):
    marked, empty = tmp_path / "marked.jsonl", tmp_path / "empty.jsonl"
    marked.write_text('\ufeff{"turns": ["fine"]}\n', encoding="utf-8")
    assert [one.text for one in read_prompts([marked])] == ["fine"]
    empty.write_text("\n")
    with pytest.raises(ValueError, match=r"empty\.jsonl holds no prompts"):
        read_prompts([marked, empty])


def test_settings_must_belong_to_a_method(target):
    with pytest.raises(ValueError, match="no method here has the setting deepness"):
        bench.load_methods(target, ["vanilla", "eagle2"], {"deepness": "3"})
    with pytest.raises(ValueError, match="unknown method 'nobody'; known: vanilla"):
        bench.load_methods(target, ["nobody"], {})


@pytest.mark.parametrize("ids", [("1", "1"), (None, None), ("2", None)])
def test_prompts_that_could_not_be_told_apart_are_refused(tmp_path, ids):
    """A second prompt of one task and id, here in files of one name; a line without an id has its number."""
    paths = [tmp_path / folder / "chat.jsonl" for folder in ("a", "b")]
    for path, id in zip(paths, ids, strict=True):
        path.parent.mkdir()
        asked = {"turns": ["fine"]} | ({"id": id} if id else {})
        path.write_text(json.dumps({"turns": ["other"], "id": path.parent.name}) + "\n" + json.dumps(asked) + "\n")
    with pytest.raises(ValueError) as error:
        read_prompts(paths)
    first, second = (f"{path}, line 2" for path in paths)
    assert str(error.value).startswith(f"{second}: task 'chat' has a prompt")
    assert str(error.value).endswith(f"already ({first}); rename the file or the id")
    with pytest.raises(ValueError, match="has a prompt 'a' already"):
        read_prompts([paths[0], paths[0]])
    assert len(read_prompts([paths[0], paths[1].rename(tmp_path / "other.jsonl")])) == 4


def test_a_task_that_is_called_as_all_tasks_together_are_is_refused(tmp_path):
    path = tmp_path / "mean.jsonl"
    path.write_text('{"turns": ["fine"]}\n')
    with pytest.raises(ValueError, match=r"mean\.jsonl: a task cannot be called mean.*; rename the file"):
        read_prompts([path])


def test_what_a_peers_first_step_gave_is_not_decoded(target):
    """Its time is the prefill's: of five tokens three came with it."""
    found = bench.Generated([1, 2, 3, 4, 5], 3, 0.25, 1.5)
    ids, counts = bench.Benchmark(target, [], {}, 5, [], {"other": lambda *given: found})._peer("other", [7], GREEDY)
    assert ids == [1, 2, 3, 4, 5]
    assert counts == {"tokens": 5, "decoded": 2, "prefill_s": 0.25, "decode_s": 1.5}


def test_decoders_take_turns_after_vanilla(target, prompts, monkeypatch):
    """Another is the next on every prompt and repeat; samples keep their order."""
    order = []

    def noted(name, found):
        order.append(name)
        return found

    real = bench.record
    monkeypatch.setattr(bench, "record", lambda *given, **more: noted(given[5], real(*given, **more)))
    peer = {"peer": lambda ids, budget, sampling: noted("peer", bench.Generated(ids, 1, 1.0, 1.0))}
    monkeypatch.setattr(bench, "WARM_UP", 0)
    methods = bench.load_methods(target, ["prompt_lookup", "eagle2", "vanilla"], {})
    report = bench.Benchmark(target, read_prompts(prompts[:1]), methods, 3, [GREEDY], peer, repeats=2).run()
    turns = [order[at : at + 4] for at in range(0, len(order), 4)]
    assert turns == [
        ["vanilla", "prompt_lookup", "eagle2", "peer"],
        ["vanilla", "eagle2", "peer", "prompt_lookup"],
        ["vanilla", "eagle2", "peer", "prompt_lookup"],  # the first prompt again
        ["vanilla", "peer", "prompt_lookup", "eagle2"],
    ]
    assert [row["method"] for row in report["rows"]] == turns[0]
    assert bench.in_turn(["vanilla"], 3) == ["vanilla"] and bench.in_turn(["b", "a"], 3) == ["a", "b"]


def test_every_temperature_is_warmed_up(target, prompts, monkeypatch):
    heats, real = [], bench.Benchmark.group

    def group(self, prompt, sampling, *given):
        heats.append(sampling.temperature)
        return real(self, prompt, sampling, *given)

    monkeypatch.setattr(bench.Benchmark, "group", group)
    methods = bench.load_methods(target, ["vanilla"], {})
    bench.Benchmark(target, read_prompts(prompts), methods, 3, [GREEDY, Sampling(1.0)]).run()
    assert heats == [0, 0, 1, 1] + [0] * 3 + [1] * 3


def test_a_run_is_held_against_vanilla_wherever_that_is_named(target, prompts):
    methods = bench.load_methods(target, ["eagle2", "vanilla"], {})
    report = bench.Benchmark(target, read_prompts(prompts, limit=1), methods, 6, [GREEDY]).run()
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
    assert generate_peers(own)[name](ids, 24, GREEDY).ids == text
    assert own.model.generation_config is config


def test_peers_sample_from_all_tokens_whatever_the_checkpoint_asks_for(tokenizer):
    own = Target.wrap(tiny_model(), tokenizer, graphs=False)
    own.model.generation_config = GenerationConfig(min_p=1.0)  # leaves the likeliest token alone
    generate = generate_peers(own)["hf_generate_dynamic"]
    assert len({tuple(generate([1, 2, 3], 8, Sampling(2.0, seed=seed)).ids) for seed in range(3)}) > 1


@pytest.mark.parametrize("name", ["hf_generate_dynamic", "hf_generate_static", "hf_prompt_lookup"])
def test_peers_draw_by_the_seed(target, name):
    generate, sampling = generate_peers(target)[name], Sampling(1.0, seed=7)
    texts = [generate([1, 2, 3], 8, sampling).ids for _ in range(2)]
    assert texts[0] == texts[1] != generate([1, 2, 3], 8, Sampling(1.0, seed=8)).ids


def test_peers_are_timed_when_the_device_is_done(target, monkeypatch):
    """The clock that waits for the device is read at the start, at the first tokens and at the end."""
    ticks = iter(range(3))
    monkeypatch.setattr(peers, "stopwatch", lambda device: lambda: float(next(ticks)))
    found = generate_peers(target)["hf_generate_dynamic"]([1, 2, 3], 6, GREEDY)
    assert (found.prefill_s, found.decode_s) == (1.0, 1.0) and next(ticks, None) is None


def calls_of_generate(target, monkeypatch, note):
    """What `note` makes of the arguments of each call, once it has returned."""
    calls, real = [], target.model.generate

    def generate(ids, **given):
        found = real(ids, **given)
        calls.append(note(given))
        return found

    monkeypatch.setattr(target.model, "generate", generate)
    return calls


def test_where_a_static_cache_is_compiled_the_second_decode_is_timed(target, monkeypatch):
    """With the same tensors as the first; a longer text has new ones, which shorter ones then share."""
    prompts = [encode(target.tokenizer, text) for text in ("the ant", "the man ran and the ant ran", "a man")]
    texts = [generate_peers(target)["hf_generate_dynamic"](ids, 12, GREEDY).ids for ids in prompts]
    ticks = iter(range(1000))
    monkeypatch.setattr(peers, "COMPILED", ("cpu",))
    monkeypatch.setattr(peers, "stopwatch", lambda device: lambda: float(next(ticks)) ** 2)
    calls = calls_of_generate(target, monkeypatch, lambda given: given[target.takes_cache].layers[0].keys)
    generate = generate_peers(target)["hf_generate_static"]
    for turn, (ids, text) in enumerate(zip(prompts, texts, strict=True)):
        found, start = generate(ids, 12, GREEDY), 6 * turn + 3  # three looks at the clock a decode
        assert found.ids == text
        assert found.prefill_s == (start + 1) ** 2 - start**2 and found.decode_s == (start + 2) ** 2 - (start + 1) ** 2
    one, again, longer, *others = calls
    assert one is again is not longer and len(others) == 3 and all(cache is longer for cache in others)
    assert len(longer[0, 0]) == len(prompts[1]) + 12


def test_elsewhere_a_static_cache_is_as_long_as_its_text(target, monkeypatch):
    """Whatever was decoded before: every step reads all of it."""
    rows = calls_of_generate(target, monkeypatch, lambda given: given[target.takes_cache].layers[0].keys.shape[2])
    generate = generate_peers(target)["hf_generate_static"]
    for length in (3, 9, 5):
        generate(list(range(1, length + 1)), 6, GREEDY)
    assert rows == [9, 15, 11]


def test_nothing_is_compiled_in_the_decode_that_is_timed(tokenizer, monkeypatch):
    """On a CPU, where `generate` compiles only if it is made to; no code is generated."""
    own = Target.wrap(tiny_model(), tokenizer, graphs=False)
    config = CompileConfig(backend="eager")
    config._compile_all_devices = True
    monkeypatch.setattr(peers, "COMPILED", ("cpu",))
    counters.clear()
    compiled = calls_of_generate(own, monkeypatch, lambda given: counters["frames"]["ok"])
    generate = peers._static(own, {"compile_config": config})
    for length in (3, 9, 5):
        generate(list(range(1, length + 1)), 6, GREEDY)
    first, second, third = zip(compiled[::2], compiled[1::2], strict=True)
    assert 0 < first[0] == first[1] < second[0] == second[1] == third[0] == third[1]


@pytest.mark.parametrize(
    "changed",
    [
        "small/model.safetensors",
        "small/config.json",
        "small/generation_config.json",
        "small/tokenizer.json",
        "eagle2/model.safetensors",
        "eagle2/config.json",
    ],
)
def test_an_interrupted_run_of_another_model_is_not_gone_on_with(tokenizer, prompts, tmp_path, changed):
    """Of the same name: elsewhere, or changed meanwhile. What training tells of itself is no part of it."""

    def opened(folder):
        loaded = Target.load(folder / "small", heads={"eagle2": folder / "eagle2"}, graphs=False)
        methods = bench.load_methods(loaded, ["vanilla", "eagle2"], {})
        work = bench.Benchmark(loaded, read_prompts(prompts), methods, 8, [GREEDY])
        return work.open_journal(tmp_path / "bench.json")

    for name in ("here", "there"):
        tiny_model().save_pretrained(tmp_path / name / "small")
        tokenizer.save_pretrained(tmp_path / name / "small")
        save_heads(tmp_path / name)
    opened(tmp_path / "here").add("a prompt", [])
    (tmp_path / "here" / "eagle2" / "training.json").write_text("[]")
    assert len(opened(tmp_path / "here")) == 1
    with pytest.raises(ValueError, match="beginning of another benchmark"):
        opened(tmp_path / "there")
    os.utime(tmp_path / "here" / changed, ns=(1, 1))
    with pytest.raises(ValueError, match="beginning of another benchmark"):
        opened(tmp_path / "here")


def test_an_interrupted_run_in_other_circumstances_is_not_gone_on_with(tokenizer, prompts, tmp_path, monkeypatch):
    """Nor one whose settings this code has no more, which is other code."""
    loaded = Target.wrap(tiny_model(), copy.deepcopy(tokenizer), graphs=False)
    methods = bench.load_methods(loaded, ["vanilla"], {})
    work = bench.Benchmark(loaded, read_prompts(prompts), methods, 8, [GREEDY])
    journal = work.open_journal(tmp_path / "bench.json")
    journal.settle({"vanilla": {"renamed": 1}})
    journal.add("a prompt", [])
    attention, template = (loaded.model.config, "_attn_implementation"), (loaded.tokenizer, "chat_template")
    others = [(attention, "eager"), (template, "{{ 1 }}"), ((loaded, "ends"), frozenset({7}))]
    for place, value in [*others, ((bench, "versions"), dict), ((bench, "code"), str)]:
        with monkeypatch.context() as patch, pytest.raises(ValueError, match="beginning of another benchmark"):
            patch.setattr(*place, value)
            work.open_journal(tmp_path / "bench.json")


def test_heads_that_the_target_does_not_name_are_part_of_the_plan(target, prompts, tmp_path):
    """An experiment has several of one kind."""
    methods = bench.load_methods(target, ["vanilla", "eagle2"], {})
    work, out = bench.Benchmark(target, read_prompts(prompts), methods, 8, [GREEDY]), tmp_path / "bench.json"
    heads = {name: save_heads(tmp_path / name)["eagle2"] for name in ("one", "two")}
    work.open_journal(out, heads).add("a prompt", [])
    assert len(work.open_journal(out, heads)) == 1
    os.utime(heads["one"] / "model.safetensors", ns=(1, 1))
    with pytest.raises(ValueError, match="beginning of another benchmark"):
        work.open_journal(out, heads)


def test_a_prompt_that_the_target_cannot_read_is_named_before_anything_is_measured(target, tmp_path):
    long = [Prompt("a", "1", "short"), Prompt("b", "7", "word " * 2 * target.context)]
    with pytest.raises(ValueError, match="prompt '7' of task 'b' has "):
        bench.Benchmark(target, long, {}, 8, [Sampling()]).open_journal(tmp_path / "bench.json")
    assert not list(tmp_path.iterdir())


def test_prompt_lines_end_where_json_lines_do(tmp_path):
    """U+2028, U+2029 and U+0085 may stand in a JSON string as they are; blank lines count for messages alone."""
    path = tmp_path / "odd.jsonl"
    path.write_text('{"turns": ["a\u2028b\u2029c\x85d"]}\n\n{"turns": ["e"]}\n', encoding="utf-8")
    assert [prompt.text for prompt in read_prompts([path], limit=2)] == ["a\u2028b\u2029c\x85d", "e"]
    with path.open("a", encoding="utf-8") as file:
        file.write("{}\n")
    with pytest.raises(ValueError, match=r"odd\.jsonl, line 4"):
        read_prompts([path])
