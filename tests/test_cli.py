"""The command line from end to end on a saved tiny target, and what it says of bad input."""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
import torch
from safetensors.torch import load_file, save_file
from tiny import CHAT, save_heads, tiny_model, tiny_tokenizer

from jakiro import engine, trace
from jakiro.__main__ import COMMANDS, main
from jakiro.assets import TRACES
from jakiro.commands.arguments import RECIPES, at_least, parser
from jakiro.files import write_text
from jakiro.measuring import limits, peers
from jakiro.measuring.journal import Journal
from jakiro.measuring.tuning import TEXTS
from jakiro.methods import on_heads
from jakiro.text import encode
from jakiro.training.card import measured

ROOT = Path(__file__).parent.parent


def run(command, folder, *more):
    return main([command, "--target", str(folder), *map(str, more)])


def test_traces_of_all_methods_agree(folder, tmp_path):
    runs = []
    for method in ("vanilla", "prompt_lookup", "eagle2", "jakiro"):
        out = tmp_path / f"{method}.json"
        arguments = [
            "--method",
            method,
            "--prompt",
            "the ant",
            "--max-new-tokens",
            16,
            "--temperature",
            0.8,
            "--seed",
            3,
        ]
        assert run("trace", folder, *arguments, "--out", out) == 0
        runs.append(trace.load(out))
    assert len({tuple(run.tokens) for run in runs}) == 1
    assert [len(run.tokens) for run in runs] == [16] * 4
    assert runs[3].settings["depth"] and runs[3].temperature == 0.8 and runs[3].seed == 3


def test_set_reaches_the_method(folder, tmp_path):
    out = tmp_path / "t.json"
    assert (
        run(
            "trace",
            folder,
            "--method",
            "jakiro",
            "--prompt",
            "a",
            "--set",
            "depth=3",
            "--set",
            "total_tokens=9",
            "--out",
            out,
        )
        == 0
    )
    read = trace.load(out)
    assert read.settings["depth"] == 3
    assert max(len(step.tree) for step in read.steps) == 9


def test_a_run_is_stopped_where_no_file_could_hold_more_of_it(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jakiro.traces.MAX_NODES", 30)
    out = tmp_path / "t.json"
    more = ["--prompt", "the ant", "--set", "total_tokens=9", "--max-new-tokens", 40, "--out", out]
    assert run("trace", folder, "--method", "jakiro", *more) == 0
    said = capsys.readouterr()
    assert "stopped early: a file of traces may hold no more" in said.err and "ended by stopped" in said.out
    assert main(["validate", str(out)]) == 0 and 0 < len(trace.load(out).steps) <= 3


def test_bench_writes_its_report(folder, tmp_path, capsys):
    questions = tmp_path / "chat.jsonl"
    questions.write_text(json.dumps({"turns": ["the ant"]}) + "\n" + json.dumps({"turns": ["a man"]}) + "\n")
    out = tmp_path / "bench.json"
    asked = ("--prompts", questions, "--limit", 1, "--max-new-tokens", 8, "--out", out)
    assert run("bench", folder, *asked) == 0 and "is there" not in capsys.readouterr().err
    report = json.loads(out.read_text())
    assert [row["method"] for row in report["rows"]] == ["vanilla", "eagle2", "jakiro"]
    assert {row["prompts"] for row in report["rows"]} == {1}
    assert run("bench", folder, *asked) == 0
    assert f"{out} is there, and is replaced at the end" in capsys.readouterr().err


def test_an_output_without_our_letters_gets_others_in_their_place(folder, tmp_path, monkeypatch):
    """As a redirected one on Windows, whose code page has no Greek."""
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "cp1252"))
    more = ("--methods", "vanilla", "--limit", 1, "--max-new-tokens", 4, "--out", tmp_path / "bench.json")
    assert run("bench", folder, *more) == 0
    sys.stdout.flush()
    assert "| mean | 1.00×, ? 1.00 |" in printed.getvalue().decode("cp1252")


def test_what_is_begun_with_a_mistake_can_be_begun_again_without(folder, tmp_path, monkeypatch):
    line = ("--methods", "vanilla", "--limit", 1, "--out", tmp_path / "bench.json", "--max-new-tokens")
    with monkeypatch.context() as broken:
        broken.setattr("jakiro.bench.encode", lambda tokenizer, text: [])
        assert run("bench", folder, *line, 5) == 2
    assert (tmp_path / "bench.json.partial").exists() and run("bench", folder, *line, 4) == 0


def test_zeros_before_a_number_do_not_count():
    assert at_least(1)("0" * 25 + "5") == 5 and at_least(0)("00") == 0
    with pytest.raises(argparse.ArgumentTypeError, match="at most 1000000000"):
        at_least(1)("0" * 18 + "1" * 99)


@pytest.mark.parametrize("count", [0, 10**10])
@pytest.mark.parametrize("command", ["trace", "bench"])
def test_no_token_is_none_to_decode_and_nobody_counts_so_far(command, count, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(command, tmp_path, "--max-new-tokens", count, "--out", tmp_path / "out.json")
    assert f"argument --max-new-tokens: '{count}' is not a whole number of at least 1" in capsys.readouterr().err


def test_an_assistant_is_loaded_once_for_all_temperatures(folder, tmp_path, monkeypatch):
    tiny_model(num_hidden_layers=1, seed=3).save_pretrained(tmp_path / "draft_model")
    tiny_tokenizer().save_pretrained(tmp_path / "draft_model")
    loads, real = [], peers._assistant
    monkeypatch.setattr(peers, "_assistant", lambda target: loads.append(target) or real(target))
    line = ["--head", f"draft_model={tmp_path / 'draft_model'}", "--methods", "vanilla", "--limit", 1]
    line += ["--max-new-tokens", 4, "--temperature", 0, 1, "--out", tmp_path / "bench.json"]
    assert run("bench", folder, *line, "--peers") == 0 and len(loads) == 1
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [row["temperature"] for row in rows if row["method"] == "hf_assisted"] == [0, 1]


@pytest.mark.parametrize("command", ["trace", "bench", "tune", "doctor", "train", "experiment"])
def test_the_help_says_what_an_option_is_where_it_is_left_out(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "(default: cpu)" in said and ("(default: the embedded model)" in said) == (command != "train")


def test_the_help_names_the_experiments_that_ship(capsys):
    with pytest.raises(SystemExit):
        main(["experiment", "--help"])
    said = capsys.readouterr().out
    shipped = [file.stem.removesuffix("-cpu") for file in RECIPES.glob("*.json") if '"variants"' in file.read_text()]
    assert len(shipped) > 1 and all(f"{name}," in said for name in shipped)


def test_bench_repeats_at_several_temperatures_and_measures_the_limits(folder, tmp_path, capsys, monkeypatch):
    for name, value in {"TURNS": 1, "PASSES": 2, "NEW_TOKENS": 8, "SQUARE_ON_CPU": 32}.items():
        monkeypatch.setattr(limits, name, value)
    out = tmp_path / "bench.json"
    more = ("--temperature", 1, 0, "--repeats", 2, "--limits", "--limit", 1, "--max-new-tokens", 6, "--out", out)
    assert run("bench", folder, "--methods", "vanilla,jakiro", *more) == 0
    report = json.loads(out.read_text())
    assert [row["temperature"] for row in report["rows"]] == [0, 0, 1, 1]
    assert {row["repeats"] for row in report["rows"]} == {2} and {row["identical"] for row in report["rows"]} == {1.0}
    assert set(report["limits"]["methods"]) == {"vanilla", "jakiro"}
    printed = capsys.readouterr().out
    assert "Temperature 0\n" in printed and "| jakiro | 1 |" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]  # nothing half-done is left


def test_bench_asks_the_examples_of_the_page_where_no_prompts_are_named(folder, tmp_path):
    out = tmp_path / "bench.json"
    assert run("bench", folder, "--methods", "vanilla", "--limit", 2, "--max-new-tokens", 4, "--out", out) == 0
    [row] = json.loads(out.read_text())["rows"]
    assert (row["task"], row["prompts"]) == ("examples", 2)


BAD = {
    "empty prompt": (["--prompt", " \n"], "the prompt is empty"),
    "long prompt": (["--prompt", "the " * 400], "shorten it"),
    "unknown method": (["--method", "nobody"], "unknown method 'nobody'"),
    "unknown setting": (["--set", "deep=3"], "no method here has the setting deep"),
    "setting out of range": (["--set", "depth=0"], "depth must be"),
    "setting of the wrong kind": (["--set", "depth=six"], "depth must be a whole number"),
    "half a setting": (["--set", "depth"], "--set takes name=value"),
    "temperature": (["--temperature", "nan"], "temperature"),
    "top_p": (["--top-p", "1.5"], "top_p"),
    "head of no method": (["--head", "jakrio=heads/jakiro"], f"is called 'jakrio'; known: {', '.join(on_heads())}"),
    "head of a method without": (["--head", "vanilla=heads/jakiro"], "no method with a head is called 'vanilla'"),
    "seed": (["--seed", str(2**53 + 1)], "use a whole number from 0 to 9007199254740992"),
    "dtype": (["--dtype", "int8"], "use one of float32"),
    "device": (["--device", "cuda"], "no CUDA device"),
    "device name": (["--device", "gpu7"], "gpu7"),
    "device without its number": (["--device", "cpu:"], "device is 'cpu:'"),
    "device with a power": (["--device", "cpu:²"], "device is 'cpu:²'"),
    "a setting twice": (["--set", "depth=3", "--set", "depth=4"], "--set depth is given twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(folder, tmp_path, capsys, monkeypatch, case):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    more, message = BAD[case]
    out = tmp_path / "t.json"
    code = run("trace", folder, "--method", "jakiro", "--prompt", "the", "--max-new-tokens", 8, *more, "--out", out)
    error = capsys.readouterr().err
    assert code == 2 and message in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["trace --prompt a", "bench", "tune", "doctor"])
def test_what_is_asked_for_is_looked_at_before_a_target_is_read(tmp_path, capsys, command):
    name = "--methods" if command == "bench" else "--method"
    bad = [[name, "nobody"]]
    if command != "doctor":
        bad += [[name, "eagle2", "--temperature", "0.0001"], [name, "eagle2", "--set", "depth=many"]]
    for more in bad:
        out = ["--out", str(tmp_path / "out.json"), "--target", str(tmp_path / "no model here")]
        assert main([*command.split(), *out, *more]) == 2
        assert "no model here" not in (said := capsys.readouterr().err)
        assert "unknown method 'nobody'" in said or "temperature" in said or "eagle2: depth must be" in said


def test_too_little_memory_is_said_with_what_would_take_less(folder, tmp_path, capsys, monkeypatch):
    def decode(*_):
        torch.empty(1 << 60)

    monkeypatch.setattr(engine, "decode", decode)
    asked = ("trace", folder, "--method", "vanilla", "--prompt", "the", "--out", tmp_path / "t.json")
    assert run(*asked) == 2
    error = capsys.readouterr().err
    assert "the memory does not suffice: ask for less (--max-new-tokens" in error and len(error.splitlines()) == 1
    monkeypatch.setattr(
        engine, "decode", lambda *_: torch.zeros(2) + torch.zeros(3)
    )  # a mistake of ours is shown whole
    with pytest.raises(RuntimeError, match="size of tensor"):
        run(*asked)


@pytest.mark.parametrize("out", ["missing/t.json", "."])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys, out):
    code = run("trace", tmp_path / "no model here", "--method", "vanilla", "--prompt", "the", "--out", tmp_path / out)
    assert code == 2 and "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "bench --prompts", "bench --variants", "tune --method eagle2 --prompts"])
def test_an_output_that_is_read_is_refused_also_by_another_name(tmp_path, capsys, command):
    file, link = tmp_path / "in.jsonl", tmp_path / "out.json"
    file.write_text("{}")
    link.symlink_to(file)
    assert main([*command.split(), str(file), "--out", str(link)]) == 2
    assert f"cannot write {link}: it is read, and would be lost; name another" in capsys.readouterr().err
    assert file.read_text() == "{}"


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    asked = ["--data", tmp_path, "--run-folder", tmp_path / "run", "--out", tmp_path / "file" / "model"]
    assert main(["train", "target", *map(str, asked)]) == 2
    assert "file is a file; name a folder" in capsys.readouterr().err and not (tmp_path / "run").exists()
    for command in (["train", "target"], ["experiment", "decoupling", "--out", str(tmp_path / "out.json")]):
        assert main([*command, "--data", str(tmp_path), "--run-folder", str(tmp_path / "file")]) == 2
        assert "file is a file; name a folder" in capsys.readouterr().err


def test_a_report_and_its_page_are_two_files(tmp_path, capsys):
    asked = ["--data", tmp_path, "--run-folder", tmp_path / "run", "--out", tmp_path / "a", "--page", tmp_path / "a"]
    assert main(["experiment", "decoupling", *map(str, asked)]) == 2
    assert "name two files" in capsys.readouterr().err
    asked[-1].write_text("# Notes\n")
    assert main(["experiment", "decoupling", *map(str, [*asked[:5], tmp_path / "b.json", *asked[6:]])]) == 2
    assert "a: it is there, and is no page about this experiment; name another" in capsys.readouterr().err


def test_an_interrupt_is_said_in_a_line(folder, tmp_path, capsys, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "bench", interrupted)
    assert run("bench", folder, "--out", tmp_path / "b.json") == 130
    assert capsys.readouterr().err == "\njakiro bench: interrupted; the same command goes on where it was\n"


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_a_terminal_does_not_obey_a_trace(command, tmp_path, capsys):
    trace.save(replace(synthetic.tree_trace(2), target="\x1b]0;owned\x07\x1b[2J"), tmp_path / "t.json")
    assert main([command, str(tmp_path / "t.json")]) == 0
    assert not {"\x1b", "\x07"} & set(capsys.readouterr().out)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_ends_a_command_from_outside_is_an_interrupt(tmp_path):
    """So that what is half-written is cleared away."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "jakiro", "validate", str(tmp_path / "pipe")]
    begun = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "pipe").open("w"):  # which waits for who reads
        begun.terminate()
        assert begun.communicate(timeout=60) == (None, "\njakiro validate: interrupted\n")
    assert begun.returncode == 130


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_traces_are_told_of_where_there_is_no_torch(command):
    file = str(TRACES / "chat-jakiro.json")
    lines = f"import sys; sys.modules['torch'] = None; from jakiro.__main__ import main; main({[command, file]!r})"
    said = subprocess.run([sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{file}: jakiro ")


@pytest.mark.parametrize("unbuffered", ["", "1"])  # what is printed fails at once, or when all is said
def test_who_stops_reading_gets_no_error(tmp_path, unbuffered):
    """As in `python -m jakiro validate trace.json | head -1`."""
    shutil.copy(TRACES / "chat-vanilla.json", tmp_path)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "jakiro", "validate", str(tmp_path / "chat-vanilla.json")]
    around = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=around, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("command", ["tune", "doctor"])
def test_what_is_printed_to_nobody_is_written(folder, tmp_path, monkeypatch, command):
    """What took minutes to measure is in its file before it is told."""

    class Left(io.StringIO):
        def write(self, text):
            raise OSError("nobody reads")

    out = tmp_path / "found.json"
    monkeypatch.setattr(sys, "stdout", Left())
    few = ("--set", "top_k=2", "--set", "depth=1") if command == "tune" else ()
    assert run(command, folder, "--method", "eagle2", "--limit", 2, *few, "--out", out) == 2
    assert json.loads(out.read_text())["schema"] == f"jakiro-{'tuning' if command == 'tune' else 'doctor'}/1"


def test_a_card_is_not_written_with_the_figures_of_another_model(folder, tmp_path, capsys):
    out = tmp_path / "bench.json"
    assert run("bench", folder, "--methods", "vanilla,jakiro", "--limit", 1, "--max-new-tokens", 4, "--out", out) == 0
    report = json.loads(out.read_text()) | {"target": "another"}
    with pytest.raises(ValueError, match=f"is of another, and the card of {folder.name}"):
        measured({"default": report, "wide": report}, folder.name)


def test_only_files_are_replaced_and_links_are_followed(tmp_path, capsys):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link.json", tmp_path / "t.json"
    os.mkfifo(pipe)
    assert run("trace", tmp_path / "no model here", "--method", "vanilla", "--prompt", "the", "--out", pipe) == 2
    assert f"cannot write {pipe}: it is no regular file" in capsys.readouterr().err
    with pytest.raises(OSError, match="no regular file"):
        write_text(pipe, "new")
    assert pipe.is_fifo()
    link.symlink_to(file)
    for text in ("old", "new"):
        write_text(link, text)
        assert link.is_symlink() and file.read_text() == text


def test_missing_parts_of_a_target_are_named(folder, tmp_path, capsys):
    for missing, message in (
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
        ("config.json", "no model"),
    ):
        broken = tmp_path / missing
        broken.mkdir()
        for file in folder.iterdir():
            if file.is_file() and file.name != missing:
                (broken / file.name).write_bytes(file.read_bytes())
        assert run("trace", broken, "--method", "vanilla", "--prompt", "the", "--out", tmp_path / "t.json") == 2
        assert message in capsys.readouterr().err


def bad_head(folder, tmp_path, capsys, change):
    """What the command says of an eagle2 head whose tensors were changed."""
    head = save_heads(tmp_path / "heads")["eagle2"]
    tensors = load_file(head / "model.safetensors")
    change(tensors)
    save_file(tensors, head / "model.safetensors")
    arguments = ["--method", "eagle2", "--prompt", "the", "--head", f"eagle2={head}", "--out", tmp_path / "t.json"]
    assert run("trace", folder, *arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("config", ["[]", '{"model_type": "llama", "hidden_size": "x"}', "{"])
def test_a_damaged_config_of_a_target_is_a_line(folder, tmp_path, capsys, config):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "config.json").write_text(config)
    assert run("trace", copy, "--method", "vanilla", "--prompt", "the", "--out", tmp_path / "t.json") == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and str(copy) in said


def test_a_head_with_a_missing_key_is_refused_by_name(folder, tmp_path, capsys):
    assert "layers.0.self_attn.o_proj.weight" in bad_head(
        folder, tmp_path, capsys, lambda tensors: tensors.pop("layers.0.self_attn.o_proj.weight")
    )


def test_a_head_with_an_unexpected_key_is_refused_by_name(folder, tmp_path, capsys):
    assert "norm.weight" in bad_head(folder, tmp_path, capsys, lambda t: t.update({"norm.weight": torch.ones(32)}))


def test_a_head_of_the_wrong_shape_is_refused_by_key(folder, tmp_path, capsys):
    error = bad_head(folder, tmp_path, capsys, lambda tensors: tensors.update({"fc.weight": torch.ones(32, 60)}))
    assert "fc.weight" in error and "60" in error and "64" in error


def test_a_head_of_another_method_is_refused(folder, tmp_path, capsys):
    heads = save_heads(tmp_path / "heads")
    arguments = ["--method", "eagle2", "--prompt", "the", "--out", tmp_path / "t.json"]
    assert run("trace", folder, *arguments, "--head", f"eagle2={heads['jakiro']}") == 2
    assert "kind Jakiro" in capsys.readouterr().err


def test_two_heads_of_a_method_are_measured_side_by_side(folder, tmp_path, capsys, methods_again):
    heads = save_heads(tmp_path / "heads")
    out = tmp_path / "bench.json"
    asked = ["--methods", "vanilla,eagle2,eagle2-mine", "--head", f"eagle2-mine={heads['eagle2']}", "--limit", 1]
    assert run("bench", folder, *asked, "--max-new-tokens", 4, "--out", out) == 0, capsys.readouterr().err
    report = json.loads(out.read_text())
    assert {row["method"] for row in report["rows"]} == {"vanilla", "eagle2", "eagle2-mine"}
    assert "eagle2-mine" in report["weights"] and "eagle2-mine" in report["settings"]
    assert run("tune", folder, "--method", "eagle2-other", "--limit", 1) == 2
    assert "unknown method 'eagle2-other'" in capsys.readouterr().err


def test_a_head_that_is_given_is_measured_without_being_asked_for(folder, tmp_path, capsys, methods_again):
    mine = f"eagle2-mine={save_heads(tmp_path / 'heads')['eagle2']}"
    out = tmp_path / "bench.json"
    assert run("bench", folder, "--head", mine, "--limit", 1, "--max-new-tokens", 4, "--out", out) == 0
    measured = [row["method"] for row in json.loads(out.read_text())["rows"]]
    assert measured == ["vanilla", "eagle2", "eagle2-mine", "jakiro"]


def test_templates_that_ship_are_given_by_name_and_a_system_message_is_told(folder, tmp_path, capsys, monkeypatch):
    """What a benchmark was begun with is not gone on with under another message."""
    monkeypatch.chdir(tmp_path)
    out, told, shown = tmp_path / "t.json", ["--system", "the man"], []
    asked = ["--method", "vanilla", "--prompt", "an ant", "--max-new-tokens", 2, "--out", out]
    for more in (["--chat-template", "llama-2"], ["--chat-template", "vicuna", *told]):
        assert run("trace", folder, *asked, *more) == 0
        found = trace.load(out)
        shown.append("".join(map(found.piece, found.prompt)))
    assert shown == ["<s>[INST] an ant [/INST]", "<s>the man USER: an ant ASSISTANT:"]
    (tmp_path / "vicuna").write_text(CHAT)
    assert run("trace", folder, *asked, "--chat-template", "vicuna") == 0
    assert trace.load(out).prompt == encode(tiny_tokenizer(), "an ant"), "a file goes before what ships"
    (tmp_path / "silent.jinja").write_text(CHAT.replace("in messages", "in messages[-1:]"))
    for command, more in (("trace", asked), ("doctor", asked[:2])):
        capsys.readouterr()
        assert run(command, folder, *more, *told, "--chat-template", "silent.jinja") == 2
        assert "refuses a system message (it leaves it out)" in capsys.readouterr().err
    (tmp_path / "deaf.jinja").write_text("Question: {{ prompt }}")
    assert run("trace", folder, *asked, "--chat-template", "deaf.jinja") == 2
    assert "deaf.jinja: the chat template leaves out what the user says" in capsys.readouterr().err
    ended = Journal.close
    monkeypatch.setattr(Journal, "close", lambda self: None)
    (tmp_path / "q.jsonl").write_text(json.dumps({"turns": ["an ant"]}))
    line = [
        "--methods",
        "vanilla",
        "--prompts",
        tmp_path / "q.jsonl",
        "--max-new-tokens",
        4,
        "--out",
        tmp_path / "b.json",
    ]
    line += ["--chat-template", "llama-2", "--system"]
    assert run("bench", folder, *line, "one") == 0
    assert run("bench", folder, *line, "two") == 2 and "another benchmark" in capsys.readouterr().err
    monkeypatch.setattr(Journal, "close", ended)
    assert run("bench", folder, *line, "one") == 0 and "going on with" in capsys.readouterr().err


def test_a_target_without_a_chat_template_is_said_to_have_none_and_takes_one(folder, tmp_path, caplog):
    """At first in a process of its own, as a user starts it: the line is on stderr."""
    bare, template, out = tmp_path / "bare", tmp_path / "chat.jinja", tmp_path / "t.json"
    shutil.copytree(folder, bare)
    tiny_tokenizer(template=False).save_pretrained(bare)
    (bare / "chat_template.jinja").unlink(missing_ok=True)
    template.write_text(CHAT)
    asked = ["--method", "vanilla", "--prompt", "the", "--max-new-tokens", 2, "--out", out]
    words = map(str, [sys.executable, "-m", "jakiro", "trace", "--target", bare, *asked])
    said, prompts = subprocess.run([*words], cwd=ROOT, capture_output=True, text=True, check=True).stderr, []
    for target, more in ((bare, []), (bare, ["--chat-template", template]), (folder, [])):
        caplog.clear()
        assert run("trace", target, *asked, *more) == 0
        prompts.append((trace.load(out).prompt, caplog.text.count("give it one with --chat-template FILE")))
    assert said.count("give it one with --chat-template FILE") == 1
    assert [count for _, count in prompts] == [1, 0, 0]
    assert prompts[1] == prompts[2] and prompts[0][0] != prompts[1][0]


@pytest.mark.parametrize(
    "words",
    [
        "validate {}",
        "explain {}",
        "replay {} --out page.html",
        "bench --prompts {} --out b.json",
        "bench --variants {} --out b.json",
    ],
)
def test_a_file_that_is_not_there_or_is_a_folder_is_said_in_words(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("nofile", "there is no file nofile: check the path"),
        ("folder", "folder is a folder: name"),
    ):
        assert main(words.format(name).split()) == (1 if words.startswith("validate") else 2)
        said = capsys.readouterr().err
        assert message in said and "Errno" not in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "trace --method vanilla --prompt a --out t --chat-template vicunna",
            "a Jinja file, or one that ships: llama-2",
        ),
        ("experiment foo --data d --run-folder r --out o", "a JSON file, or one that ships: decoupling, decoup"),
        ("train jakiro --data d --recipe heads-cqu", "a JSON file, or one that ships: .*heads-cpu, heads-cpu-eagle3"),
    ],
)
def test_a_name_of_nothing_that_ships_is_said_with_those_that_do(tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(words.split())
    assert re.search(f"there is no file .*: give {message}", capsys.readouterr().err)


def test_a_recipe_may_be_given_by_its_name_unless_a_file_is_called_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heads-gpu").write_text("{}")
    (tmp_path / "heads-cpu").mkdir()
    line = ["train", "jakiro", "--data", "d", "--recipe"]
    found = [parser().parse_args([*line, name]).recipe for name in ("heads-cpu", "heads-gpu")]
    assert found == [RECIPES / "heads-cpu.json", Path("heads-gpu")]


@pytest.mark.parametrize(
    ("command", "schema", "what"),
    [
        ("trace --method vanilla --prompt the", "jakiro-trace/1", "trace of one run"),
        ("bench --methods vanilla --limit 1", "jakiro-bench/1", "benchmark report"),
        ("tune --method eagle2 --limit 1 --set top_k=2 --set depth=1", "jakiro-tuning/1", "report of tune"),
        ("doctor --method eagle2 --limit 2", "jakiro-doctor/1", "report of doctor"),
    ],
)
def test_a_file_of_another_kind_is_not_replaced(folder, tmp_path, capsys, command, schema, what):
    name, *more = command.split()
    out = tmp_path / "out.json"
    short = ["--max-new-tokens", 4] if name in ("trace", "bench") else []
    for text in ("my notes", "[1]", '{"schema": "jakiro-other/1"}'):
        out.write_text(text)
        assert run(name, folder, *more, *short, "--out", out) == 2
        assert f"out.json: it is there, and is no {what}; name another file" in capsys.readouterr().err
        assert out.read_text() == text
    for text in ("", json.dumps({"schema": schema})):
        out.write_text(text)
        assert run(name, folder, *more, *short, "--out", out) == int(name == "doctor"), "1 of an untrained head"
        assert len(json.loads(out.read_text())) > 1


def test_methods_may_have_spaces_between_them_but_none_is_named_twice(folder, tmp_path, capsys):
    line = ("--limit", 1, "--max-new-tokens", 4, "--out", tmp_path / "bench.json", "--methods")
    assert run("bench", folder, *line, "vanilla, eagle2") == 0
    assert run("bench", folder, *line, "vanilla,eagle2,vanilla") == 2
    assert "--methods names vanilla twice" in capsys.readouterr().err


def test_the_help_says_what_a_prompt_and_a_file_of_them_are(capsys):
    said = {}
    for command in ("trace", "bench", "tune", "card"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        said[command] = " ".join(capsys.readouterr().out.split())
    assert "usage: python -m jakiro trace" in said["trace"] and "TEXT what the target is asked" in said["trace"]
    assert """files whose lines are {"turns": ["question"]}""" in said["bench"]
    assert f"where a tree is measured, on {TEXTS} of them at most)" in said["tune"]
    assert "(default: the embedded model)" in said["card"] and "(default: target-gpu)" in said["card"]


@pytest.mark.parametrize("method", ["eagle2", "eagle3", "jakiro"])
def test_a_head_of_another_targets_size_is_told_before_weights_are_read(folder, tmp_path, capsys, monkeypatch, method):
    """But by the doctor, whose finding it is."""
    shutil.copytree(folder / method, tmp_path / "head")
    sizes = json.loads((tmp_path / "head" / "config.json").read_text())
    sizes |= {"target_hidden_size": 64} if method == "eagle3" else {"hidden_size": 64}
    (tmp_path / "head" / "config.json").write_text(json.dumps(sizes))
    head = ["--head", f"{method}={tmp_path / 'head'}", "--method", method]
    assert run("doctor", folder, *head) == 1
    assert "made for a target of hidden_size 64" in capsys.readouterr().out
    monkeypatch.setattr("jakiro.target.load_model", lambda *_, **__: pytest.fail("the weights are read"))
    assert run("trace", folder, *head, "--prompt", "a", "--out", tmp_path / "trace.json") != 0
    assert f"was made for a target of hidden_size 64; {folder.parent.name}" in capsys.readouterr().err
