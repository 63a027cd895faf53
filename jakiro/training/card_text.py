"""The words of the model card, with places for what card.py fills in."""

from __future__ import annotations

LICENCES = """\
| data | licence |
|---|---|
| Open Assistant model evaluation reports (answers of Apache- and MIT-licensed models), rasbt/LLMs-from-scratch, \
chatterbot-corpus, paredezadrian/open-datasets | Apache-2.0, BSD-3-Clause, MIT |
| OpenStax textbooks, at commits under CC BY 4.0 (access for free at openstax.org) | CC-BY-4.0 |
| children's classics before 1930 (mlschmitt/classic-books-markdown) | public domain |
| GSM8K training set, MAWPS, SVAMP | MIT |
| worked arithmetic made by a generator | the project's own |
| FLAN chain of thought (ECQA, CREAK, StrategyQA, QASC, ComVE, AQuA) | Apache-2.0, MIT, CC-BY-4.0, CC-BY-SA-4.0, \
CDLA-Sharing-1.0 |
| MBPP, Python programming puzzles, 30 seconds of code, JavaScript questions | CC-BY-4.0, MIT, CC0-1.0 |
| nl2bash, tldr-pages | MIT, CC-BY-4.0 |
| functions of the Python standard library with their docstrings | PSF-2.0 |
| WordNet, MedQuAD, CIA World Factbook, GitHub topics, countries, periodic table, recipes | WordNet, CC-BY-4.0, \
public domain, MIT, CC-BY-SA-3.0, Unlicense |
| 18F, digital.gov and plainlanguage.gov articles | CC0, US public domain |
| QED, QuoteSum, wiki-split, XQuAD, Wikitext-2, passages of BoolQ, the wiki demo of hiyouga/LLaMA-Factory | \
CC-BY-SA-3.0, CC-BY-SA-4.0 |
| BIG-bench QA Wikidata and ARC (easy and challenge), as in mosaicml/llm-foundry | Apache-2.0, CC-BY-SA-4.0 |
| Disfl-QA | CC-BY-4.0 |
| T0 prompts of yizhongw/self-instruct (adversarial_qa, common_gen, quoref, ropes, cosmos, quartz) | \
Apache-2.0; parts CC-BY-SA, MIT, CC-BY-4.0 |
| Schema-Guided Dialogue, Taskmaster | CC-BY-SA-4.0, CC-BY-4.0 |
| what SmolLM2-135M-Instruct answers to prompts of these and to prompts of its own (`train texts`) | Apache-2.0 |
"""

BEGUN = """\
It began as a part of [{parent}](https://huggingface.co/{parent}): as many of its layers, {units} units of the
feed-forward part of each, and the first tokens of its vocabulary (`jakiro/training/pruning.py`).

"""
GROWING = " of growing depth (new layers start as the identity)"

CARD = """\
---
license: cc-by-sa-4.0
language: en
library_name: transformers
{base}pipeline_tag: text-generation
---
# {name}

A Llama-architecture chat model of {parameters:.1f} M parameters ({layers} layers of {hidden}, vocabulary {vocab}), with
two draft heads for speculative decoding beside it: `eagle2/` ({eagle:.2f} M parameters) and `jakiro/` ({jakiro:.2f} M).
It exists so that the debugger has something real to race on a laptop. It is not a useful assistant.
{assisted}
## Data and licences

{licences}
Some sources are share-alike, so the weights are too. Long answers were cut at the end of a sentence, so that the model
learns to stop. One prompt in a hundred was held out of training. GSM8K's test set, HumanEval and the other evaluation
prompts are not in the data; MBPP, ARC and XQuAD items and passages of BoolQ are, so no score on them means anything.

## Recipe

{begun}`python -m jakiro train target` with `jakiro/training/recipes/{target_recipe}`: {tokens:.1f} M tokens seen in
all, in stages{growing}, Muon for the layers' matrices and AdamW for the rest, products in bfloat16 where the
processor has instructions for it; in the later stages unlikelihood losses (Welleck et al., arXiv 1908.04319) against
repetition.

{stages}

Cross-entropy on the assistant's tokens of held-out prompts of the last mix{unheld}: **{held_out:.3f}** nats a token
(perplexity {perplexity:.1f}). Part of these answers was read in training all the same, as plain text: chats are held
out by their prompt and plain text by its document, and some chats are made from documents that are read so too (nearly
all of `explain_textbook` and `stories`, some of `qa_knowledge`, `reading_summarize` and `leads:`).

Heads: `python -m jakiro train eagle2 jakiro` with {head_recipes}, on the
target's own features, all heads on the same rows (the last column is the mean of the last 100 steps):

{head_runs}

## Measured

{machine}, {dtype}, temperature 0, {limit} new tokens at most; speed-up is decoding time
against vanilla's in the same run, tau is tokens per target pass with the bonus counted. Every method gave vanilla's
ids.

With the default tree of the device ({default_tree});
{default_asked}:

{default}

`{default_command}`

With {wide_tree}; {wide_asked}:

{wide}

`{wide_command}`

## Twelve answers

The first two prompts of each evaluation set, temperature 0, at most 128 new tokens, nothing selected. Of the
{answered} answers to the first prompts of all sets, {round} go round: they say a block of tokens three times in a row
(`goes_round` in `jakiro/training/repeats.py`).

{answers}
## Limits

It knows little and invents freely; arithmetic beyond one or two steps is usually wrong; a summary is mostly copied
from the text; at temperature 0 some answers repeat themselves. English only. Prompt and answer share a context of
{context} tokens, of which training saw rows of at most {longest}.
"""
