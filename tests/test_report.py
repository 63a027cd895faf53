"""The benchmark's tables, from samples whose numbers are counted by hand."""

from dataclasses import replace

import pytest

from jakiro.measuring import report, tables
from jakiro.measuring.report import Sample


def sample(method, repeat, decoded, seconds, task="chat", temperature=0.0, **more):
    known = {"tokens": decoded + 1, "prefill_s": 1.0, "prompt": "1"} | more
    return Sample(
        task, method=method, temperature=temperature, repeat=repeat, decoded=decoded, decode_s=seconds, **known
    )


def ours(method, repeat, seconds, **more):
    """10 tokens in 4 rounds, of which 3 accepted a token, 2 a second and 1 a third."""
    phases = [0.125 * seconds, 0.625 * seconds, 0.25 * seconds]
    return sample(method, repeat, 10, seconds, reached=[4, 3, 2, 1], phases=phases, identical=True, **more)


@pytest.fixture
def rows():
    samples = [
        sample("vanilla", repeat, 10, seconds, reached=[10], phases=[0, seconds, 0])
        for repeat, seconds in enumerate((2, 4, 5))
    ]
    samples += [
        ours("jakiro", repeat, seconds, peak_bytes=peak, prefill_s=prefill, recording_s=prefill)
        for repeat, (seconds, peak, prefill) in enumerate(((1, 7, 9.0), (4, 9, 2.0), (4, 8, 3.0)))
    ]
    samples += [sample("hf_generate_dynamic", repeat, 10, 5) for repeat in range(3)]
    return {row["method"]: row for row in report.rows(samples)}


def test_speeds_are_medians_over_repeats_and_ratios_are_of_the_same_repeat(rows):
    assert rows["vanilla"]["tokens_per_s"] == 2.5 and rows["vanilla"]["tokens_per_s_spread"] == [2.0, 5.0]
    assert rows["jakiro"]["tokens_per_s"] == 2.5 and rows["jakiro"]["tokens_per_s_spread"] == [2.5, 10.0]
    assert rows["jakiro"]["speedup"] == 1.25 and rows["jakiro"]["speedup_spread"] == [1.0, 2.0]  # of the medians 1
    assert rows["hf_generate_dynamic"]["speedup"] == pytest.approx(0.8)


def test_counts_are_those_of_one_repeat(rows):
    row = rows["jakiro"]
    assert (row["prompts"], row["repeats"], row["tokens"], row["rounds"], row["tau"]) == (1, 3, 11, 4, 2.5)
    assert row["acceptance_rate_per_position"] == [0.75, 0.5, 0.25]
    assert (row["draft_s"], row["verify_s"], row["overhead_s"]) == (0.5, 2.5, 1.0)
    assert row["prefill_s"] == 3.0  # as other seconds, the median of the repeats
    assert row["peak_bytes"] == 9 and row["identical"] == 1.0 and row["recording_s"] == 9.0


def test_what_is_not_known_is_none(rows):
    row = rows["hf_generate_dynamic"]
    unknown = ("rounds", "tau", "acceptance_rate_per_position", "draft_s", "recording_s", "peak_bytes", "identical")
    assert {row[name] for name in unknown} == {None} and row["by_prompt"]["rounds"] == [None]
    assert row["by_prompt"]["decode_s"] == [[5]] * 3, "as the others', by repeat"
    [row] = report.rows([sample("hf_generate_dynamic", 0, 0, 0.1)])  # its first token is the last
    assert row["tokens_per_s"] is None and row["speedup"] is None


def test_seconds_that_one_prompt_or_repeat_does_not_tell_are_none():
    told, untold = (ours("jakiro", 0, 1.0, prompt=str(seconds), recording_s=seconds) for seconds in (2.0, None))
    assert [row["recording_s"] for row in report.rows([told, untold])] == [None]
    assert [row["recording_s"] for row in report.rows([told, replace(untold, repeat=1)])] == [None]


def test_acceptance_adds_up_over_prompts_of_different_depth():
    short = sample("jakiro", 0, 3, 1.0, prompt="2", reached=[2, 1], phases=[0, 1, 0])
    [row] = report.rows([ours("jakiro", 0, 1.0), short])
    counted = {"prompt": ["1", "2"], "decoded": [10, 3], "rounds": [4, 2]}
    assert row["by_prompt"] == counted | {"decode_s": [[1.0, 1.0]]}
    assert row["rounds"] == 6 and row["acceptance_rate_per_position"] == pytest.approx([4 / 6, 2 / 6, 1 / 6])


def test_tables_have_a_part_for_each_temperature():
    samples = [
        ours(name, 0, seconds, task=task, temperature=heat)
        for heat in (1.0, 0.0)
        for task in ("a", "b")
        for name, seconds in (("vanilla", 4), ("jakiro", 2 + heat))
    ]
    measured = {"rows": report.rows(samples)}
    assert report.means(measured) == report.means(measured, 0.0) != report.means(measured, 1.0)
    assert [line["temperature"] for line in report.method_totals(measured)] == [0.0, 0.0, 1.0, 1.0]
    table = tables.as_markdown(measured)
    first, second = table.split("Temperature 1")
    assert first.startswith("Temperature 0\n") and "| mean | 1.00×, τ 2.50 | 2.00×, τ 2.50 |" in first
    assert "| mean | 1.00×, τ 2.50 | 1.33×, τ 2.50 |" in second


def test_what_tau_allows_is_held_against_what_was_reached():
    """Of prompt lookup, token recycling and drafts with copies nothing is said: many of their trees are smaller than
    the one that was timed."""
    tree = {"top_k": 2, "depth": 2, "total_tokens": 6}
    names = {"vanilla": {}, "prompt_lookup": {"depth": 8}, "token_recycling": {"depth": 3, "total_tokens": 5}}
    names |= {"eagle2": tree | {"lookup": 2}, "jakiro": tree | {"lookup": 0}}
    samples = [ours(name, 0, seconds, task="a") for name, seconds in zip(names, (4, 3, 3, 3, 2), strict=True)]
    measured = {"rows": report.rows(samples), "settings": names}
    assert tables.allowed(measured) == ""
    methods = {
        "vanilla": {"round_s": 0.01, "ideal_round_s": 0.005},
        **{name: {"round_s": 0.04, "ideal_round_s": 0.035} for name in ("prompt_lookup", "token_recycling", "eagle2")},
        "jakiro": {"round_s": 0.02, "ideal_round_s": 0.01},
    }
    said = tables.allowed(measured | {"limits": {"methods": methods}})
    assert said == "Allowed by tau and the bare networks: jakiro 2.50×, of which it reached 0.80"
    sampled = [ours(name, 0, 2, task="a", temperature=1.0) for name in names]
    more = {"settings": names, "limits": {"methods": methods}}
    assert tables.allowed({"rows": report.rows(sampled)} | more) == "", "limits are measured without sampling"


def test_totals_weigh_tasks_by_their_rounds():
    """Of 4 + 12 rounds 3 + 3 accepted a token, 2 a second, 1 a third."""
    long = sample("jakiro", 0, 15, 6.0, task="long", prompt="2", reached=[12, 3], phases=[1.0, 4.0, 1.0])
    short = ours("jakiro", 0, 2.0)
    [total] = report.method_totals({"rows": report.rows([short, long])})
    assert total["acceptance_rate_per_position"] == pytest.approx([6 / 16, 2 / 16, 1 / 16])
    assert total["round_s"] == 8 / 16 and total["shares"] == [1.25 / 8, 5.25 / 8, 1.5 / 8]


def test_prompts_of_a_task_are_told_as_a_range_where_tasks_differ():
    asked = (("a", "1"), ("b", "1"), ("b", "2"))
    samples = [ours("jakiro", 0, 1.0, task=task, prompt=prompt) for task, prompt in asked]
    assert report.prompts_a_task({"rows": report.rows(samples)}) == "1 to 2"
    assert report.prompts_a_task({"rows": report.rows(samples[1:])}) == "2"


def test_details_say_where_a_round_went():
    peaks = {"a": 300 * 2**20, "b": 500 * 2**20}
    samples = [
        ours("jakiro", 0, 0.008, task=task, prompt=name, peak_bytes=peak, recording_s=0.003)
        for task, peak in peaks.items()
        for name in ("1", "2")
    ]
    line = tables.details({"rows": report.rows(samples)}).splitlines()[-1]
    assert line.startswith("| jakiro | 0 | 2.50 |  |  |  | 2.00 | 12.5 | 62.5 | 25.0 | 75.0 50.0 25.0 |")
    assert line.endswith(" | 1000.0 | 3.0 | 500 | 1.00 |")


def test_all_prompts_together_are_held_against_vanilla_of_their_temperature():
    """Of one prompt that pays and one, three times as long, that does not."""
    samples = []
    for name, rounds, seconds in (("short", 5, 5.0), ("long", 20, 40.0)):
        tokens = {"short": 11, "long": 31}[name]
        plain = [tokens - 1], [0.0, tokens - 1.0, 0.0]
        for method, (reached, phases) in {"vanilla": plain, "jakiro": ([rounds], [seconds, 0.0, 0.0])}.items():
            more = {"task": name, "reached": reached, "phases": phases, "recording_s": 1.0 + (method == "jakiro")}
            samples += [sample(method, 0, tokens - 1, sum(phases), temperature=heat, **more) for heat in (0.0, 1.0)]
    for found in report.method_totals({"rows": report.rows(samples)})[1::2]:
        assert found["tau"] == 40 / 25 and found["pays_from"] == 45 / 25
        assert found["speedup"] == pytest.approx(40 / 45) and found["speedup_recorded"] == pytest.approx(42 / 49)
    for found in report.method_totals({"rows": report.rows(samples), "tapes": True}):  # whose they are is not known
        assert found["recording_s"] is None and found["speedup_recorded"] is None
    alone = [one for one in samples if one.method == "jakiro"]
    assert report.method_totals({"rows": report.rows(alone)})[0]["speedup"] is None


def test_one_other_output_is_never_rounded_away_and_counts_as_every_prompt_does():
    rows = report.rows([ours("jakiro", 0, 0.008, task=task) for task in ("a", "b")])
    rows[0] |= {"prompts": 300, "identical": 299 / 300}
    rows[1] |= {"prompts": 100}
    [total] = report.method_totals({"rows": rows})
    assert total["identical"] == report.means({"rows": rows})["jakiro"]["identical"] == pytest.approx(399 / 400)
    assert tables.details({"rows": rows}).endswith("| 0.99 |")


def test_whatever_a_label_is_a_table_has_a_line_for_it():
    head, _, row = tables.table(["a", "b"], [["own|head\nof mine", "1"]]).splitlines()
    assert (head, row) == ("| a | b |", "| own\\|head of mine | 1 |")
