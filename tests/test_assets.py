"""What ships: the embedded models decode losslessly, the recorded races can be read, and files stay small."""

import json
import re
import string
import textwrap

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from tiny import tiny_tokenizer

from jakiro.assets import ASSETS, PLOTLY, TARGET, TEMPLATES, TRACES
from jakiro.bench import load_methods
from jakiro.engine import record
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.card import CARD
from jakiro.ui import recorded
from jakiro.verify import Sampling

README = ASSETS.parent / "README.md"
LARGEST = 15 * 2**20  # bytes of a file


CHATS = {  # one turn and three of a conversation, as FastChat's vicuna_v1.1 and Meta's code write them
    "vicuna": (
        "<s>A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
        "detailed, and polite answers to the user's questions. USER: Hi ASSISTANT:",
        "<s>Be kind. USER: Hi ASSISTANT: Yo</s>USER: Why? ASSISTANT:",
    ),
    "llama-2": (
        "<s>[INST] Hi [/INST]",
        "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Yo </s><s>[INST] Why? [/INST]",
    ),
}


@pytest.fixture(scope="module")
def embedded():
    return Target.load(TARGET)


def test_templates_that_ship_write_what_published_heads_were_trained_on():
    assert {file.stem for file in TEMPLATES.glob("*.jinja")} == set(CHATS)
    one, told = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be kind."}
    whole = [told, one, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Why?"}]
    for name, expected in CHATS.items():
        own = tiny_tokenizer()
        own.chat_template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
        shown = [own.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in ([one], whole)]
        assert shown == [*expected]
    assert "while being safe.  Your answers" in (TEMPLATES / "llama.txt").read_text(), "as it was in training"


def test_the_name_of_plotly_has_its_version_which_browsers_keep_for_ever():
    banner = PLOTLY.read_text(encoding="utf-8")[:200]
    assert re.search(r"plotly\.js \((\w+) - minified\) v([\d.]+)\n", banner).groups() == ("cartesian", "4.1.1")
    assert PLOTLY.name == "plotly-cartesian-4.1.1.min.js" and "MIT" in (PLOTLY.parent / "LICENSE").read_text()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, 0.9, seed=1)], ids=["greedy", "sampled"])
def test_embedded_methods_agree_and_draft_usefully(embedded, sampling):
    ids = encode(embedded.tokenizer, "What is a prime number?")
    methods = load_methods(embedded, ["vanilla", "prompt_lookup", "eagle2", "jakiro"], {})
    runs = {name: record(embedded, make(own), ids, 32, sampling, name, own) for name, (make, own) in methods.items()}
    assert len({tuple(run.tokens) for run in runs.values()}) == 1
    for name in ("eagle2", "jakiro"):
        assert len(runs[name].steps) < 0.8 * len(runs["vanilla"].steps)


def test_how_a_line_under_text_looks_is_said_apart_from_it():
    """WebKit takes no `underline dotted` (2.50, as Safari 26): tokens of the target's own had no line there."""
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    assert set(re.findall(r"text-decoration: ([^;]+);", style)) == {"underline", "none"}


def test_the_readmes_header_configures_a_space():
    header = yaml.safe_load(README.read_text(encoding="utf-8").split("---\n")[1])
    assert (header["sdk"], header["python_version"]) == ("gradio", "3.12")
    assert (ASSETS.parent / header["app_file"]).is_file()
    assert Version(header["sdk_version"]) in Requirement(_required("gradio")).specifier
    assert len(header["short_description"]) <= 60
    recipe = json.loads((TARGET / "recipe.json").read_text(encoding="utf-8"))
    assert header["models"] == [recipe["parent"]]


def _required(name):
    lines = (ASSETS.parent / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(name))


def test_the_readmes_example_of_the_library_runs(capsys, monkeypatch, tmp_path):
    """In any folder, as it says."""
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"in it:\n +```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    exec(textwrap.dedent(example), {})
    assert len(capsys.readouterr().out.split()) > 10


MORE_LANES = {"own-candidates": ["jakiro, decoupled"], "copies": ["eagle2, lookup 2", "jakiro, lookup 2"]}


def _lane(trace):
    """What a recorded run is, by the settings in which lanes differ."""
    copies, own = trace.settings.get("lookup"), trace.settings.get("candidates") == "decoupled"
    return trace.method + (f", lookup {copies}" if copies else "") + ", decoupled" * own


def test_recorded_races_are_sound(embedded):
    races = recorded.read(TRACES)
    prompts = {example["prompt"] for example in json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))}
    own = [race for race in races if race.model == embedded.name]
    assert races[0] in own and {race.prompt for race in own} == prompts
    for race in races:
        traces = recorded.load(TRACES, race)
        lanes = ["vanilla", "eagle2", "jakiro", *MORE_LANES.get(race.id, [])]
        assert [_lane(trace) for trace in traces] == lanes
        assert len({tuple(trace.tokens) for trace in traces}) == 1 and race.date
        assert race not in own or traces[0].prompt == encode(embedded.tokenizer, race.prompt)


def test_files_are_small_and_models_have_a_card():
    assert all(path.stat().st_size <= LARGEST for path in ASSETS.rglob("*") if path.is_file())
    card = (TARGET / "README.md").read_text(encoding="utf-8")
    for part in ("## Data and licences", "## Recipe", "## Measured", "## Twelve answers", "## Limits"):
        assert part in card
    assert card.count("\n**") == 12
    parts = string.Formatter().parse(CARD.read_text(encoding="utf-8"))
    assert all(words in card for words, *_ in parts)  # as `python -m jakiro card` writes it
