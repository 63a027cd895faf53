"""Token classes and a run's headline, on runs that can be counted by hand."""

from dataclasses import replace

import pytest
from hand import FIRST, HAND, SECOND, THIRD, run

from jakiro.analysis.classes import CLASSES, by_class, token_class
from jakiro.trace import StepTrace
from jakiro.tree import DraftTree
from jakiro.ui.headline import headline

VANILLA = replace(run(THIRD, THIRD), method="vanilla")


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        (" the", "of", "word start"),
        ("the ", "of", "continuation"),
        ("The", "", "word start"),
        ("The", "\n", "word start"),
        ("ing", " go", "continuation"),
        ("é", " caf", "continuation"),
        ("42", " is", "digit"),
        (" 7", " is", "digit"),
        (".", " end", "punctuation"),
        (" (", "f", "punctuation"),
        ("…", "x", "punctuation"),
        ("():", "f", "punctuation"),
        ("'s", " Tom", "continuation"),
        ("’re", " you", "continuation"),
        (" '", "Tom", "punctuation"),
        (" हिन्दी", "x", "word start"),
        ("\u0301s", " cafe", "continuation"),
        (" ==", "x", "other"),
        ("_id", "x", "other"),
        ("x1", "", "other"),
        ("<|end|>", ".", "other"),
        ("⟨E2⟩", "", "other"),
        ("\n\n", ".", "whitespace"),
        ("    ", ":", "whitespace"),
    ],
)
def test_tokens_fall_into_the_class_that_they_look_like(text, before, expected):
    assert token_class(text, before) == expected


def test_classes_count_drafted_and_own_tokens():
    trace = replace(HAND, pieces={10: "A", 11: " b", 13: "c", 15: ".", 18: "1", 19: "2"})
    counts = {count.name: (count.tokens, count.accepted) for count in by_class(trace) if count.tokens}
    assert counts == {"word start": (1, 1), "continuation": (1, 1), "punctuation": (1, 0), "digit": (2, 0)}
    assert [count.name for count in by_class(trace)] == list(CLASSES)
    shares = {count.name: count.share for count in by_class(replace(trace, pieces=trace.pieces | {15: " c"}))}
    assert shares["word start"] == 1 / 2 and shares["digit"] == 0 and shares["other"] is None


def test_the_headline_counts_what_a_run_drafted_and_where_it_ends():
    text = headline(run(*[FIRST, SECOND] * 5), "Hand", None)
    assert "drafted 3.0 tokens a round, 1.00 of them were accepted, which makes 2.00 tokens a pass" in text
    assert "In 5 of 10 rounds an accepted token was in the top-k of one expert alone: 5 tokens in" in text
    assert text.endswith(
        "The weakest level is depth 1: of the 10 rounds that got there, 10 had candidates that could be accepted, and "
        "5 accepted one."
    )
    assert "vanilla" not in text
    columns = FIRST.tree.columns | {"source": [None, 0, 1, 0, 2]}
    text = headline(run(replace(FIRST, tree=replace(FIRST.tree, columns=columns)), THIRD), "Hand", None)
    assert "drafted 2.0 tokens a round, 1.00 of them were accepted" in text  # rounds without a draft count
    assert "In 1 of 2 rounds an accepted token was in the top-k of one expert alone" in text
    assert text.endswith("alone: 2 tokens in expert 0's, 0 in expert 1's.")
    both = run(replace(FIRST, tree=replace(FIRST.tree, columns=columns | {"source": [None, 2, 2, 2, 2]})), THIRD)
    assert headline(both, "Hand", None).endswith("In no round was an accepted token in the top-k of one expert alone.")


def test_a_level_is_the_weakest_of_at_least_two_that_enough_rounds_reached():
    assert "weakest" not in headline(run(*[FIRST, SECOND] * 4), "Hand", None)  # 4 got to the second
    deeper = replace(FIRST, tree=replace(FIRST.tree, parents=[-1, 0, 0, 1, 3]))  # its third level is not accepted
    assert "weakest level is depth 3: of the 5 rounds" in headline(run(*[deeper] * 5), "Hand", None)


def test_the_headline_names_the_speed_up_in_the_same_race():
    slow = headline(run(FIRST, SECOND), "Hand", VANILLA)
    assert "and 1.71 times vanilla's speed." in slow  # 4 tokens in 7 s against 2 in 6 s
    recorded = run(replace(FIRST, recording_s=7.0), SECOND)
    noted = headline(replace(recorded, threads=2), "Hand", VANILLA)
    assert "speed (0.86 times with what recording took, though tapes serve all lanes)." in noted
    assert "speed (0.86 times with what recording took)." in headline(recorded, "Hand", VANILLA)  # a GPU's graphs


def test_runs_without_drafts_or_rounds_are_told_as_they_are():
    nothing = "Vanilla drafts nothing: one pass of the target for every token after the first, 2 of them."
    assert headline(VANILLA, "Vanilla", VANILLA) == nothing
    nothing = "Hand drafted nothing in this run: one pass of the target for every token after the first, 2 of them."
    assert headline(run(THIRD, THIRD), "Hand", VANILLA) == nothing
    assert headline(run(), "Hand", VANILLA) == "Hand ended with its first token: there are no rounds."
    stopped = replace(run(), stop="stopped")
    assert " It was stopped after 5 tokens." in headline(replace(run(FIRST, THIRD), stop="stopped"), "Hand", None)
    shorter = replace(run(FIRST, THIRD), stop="stopped", branch="what if")  # to so many rounds, as was asked
    assert "stopped" not in headline(shorter, "Hand", None)
    assert headline(stopped, "Hand", VANILLA) == "Hand was stopped after its first token: there are no rounds."


def test_what_copies_brought_is_told_apart():
    chain = DraftTree([15, 16, 17], [-1, 0, 1], [0.0] * 3, {"copied_from": [None, 3, 4]})
    copy = replace(SECOND, tree=chain, accepted=[1])
    said = "In 1 of 3 rounds it copied from the text in place of a draft, and 1.00 tokens of a copy were accepted."
    assert said in headline(replace(run(FIRST, copy, THIRD), settings={"lookup": 2}), "Hand", None)
    assert "copied" not in headline(run(FIRST, copy, THIRD), "Hand", None)  # one that does nothing else


def test_the_weakest_level_is_one_of_drafts_not_one_that_copies_alone_have():
    chain = DraftTree([15, 20, 21, 22], [-1, 0, 1, 2], [0.0] * 4, {"copied_from": [None, 3, 4, 5]})
    copy = StepTrace(chain, [1], 16, [0.0, -1.0, -1.0, -1.0], 0.1, 0.1, 0.1)
    said = headline(replace(run(*[FIRST, SECOND, copy] * 5), settings={"lookup": 2}), "Hand", None)
    assert "The weakest level of its drafts is depth 1: of the 10 rounds that got there, 10 had" in said
    assert "The weakest level is depth 2: of the 5" in headline(run(*[copy] * 5), "Hand", None)  # it does nothing else
