"""Plant one-line mistakes, one at a time, and show that the suite catches each: `python -m scripts.mutants`.

Every mutant is made in a copy of the tree, and only the tests named beside it are run there. A mutant that survives, or
whose line is not to be found any more, makes the script fail, and so do tests that fail without any mistake.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("jakiro", "tests", "benchmarks", "assets/prompts.json", "pyproject.toml", "Makefile")  # by tests


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of one file, replaced."""

    what: str
    file: str
    line: str  # must occur once
    instead: str
    tests: str  # of tests/


MUTANTS = [
    Mutant(
        "cut nodes are asked of trees that levels were cut off from",
        "jakiro/engine.py",
        "cut = drafter.cut(tree) if whole else CutNodes()",
        "cut = drafter.cut(tree)",
        "test_engine.py",
    ),
    Mutant(
        "the features of the first rows, not of the accepted ones, go to the drafter",
        "jakiro/engine.py",
        "features = tree_features.index_select(0, upload(kept, target.device))",
        "features = tree_features[: len(kept)]",
        "test_engine.py",
    ),
    Mutant(
        "of siblings with one token the last is walked",
        "jakiro/tree.py",
        "nodes = range(len(self) - 1, 0, -1)",
        "nodes = range(1, len(self))",
        "test_tuning.py",
    ),
    Mutant(
        "whether runs part at a tie depends on which is first",
        "jakiro/metrics.py",
        "dtype = coarsest([ours, theirs])",
        "dtype = ours.dtype",
        "test_replay.py",
    ),
    Mutant(
        "the walk goes on past the end of the text",
        "jakiro/verify.py",
        "if not node or ends(token, len(accepted) + 1):",
        "if not node:",
        "test_engine.py",
    ),
    Mutant(
        "sampling noise differs between rows that pick for one position",
        "jakiro/verify.py",
        "rows = upload([row[position] for position in positions], logits.device)",
        "rows = torch.arange(len(positions), device=logits.device) % len(noise)",
        "test_verify.py test_engine.py",
    ),
    Mutant(
        "the nucleus is one token too small",
        "jakiro/verify.py",
        "size = (mass - ordered < top_p).sum(-1, keepdim=True)",
        "size = (mass < top_p).sum(-1, keepdim=True).clamp_min(1)",
        "test_verify.py",
    ),
    Mutant(
        "the cache keeps the first rows of the tree instead of the accepted path",
        "jakiro/cache.py",
        "source = upload(rows[moved:], storage.device) + base",
        "source = torch.arange(moved, len(rows), device=storage.device) + base",
        "test_cache.py",
    ),
    Mutant(
        "a node sees the node before it instead of its parent",
        "jakiro/models/trees.py",
        "row = bytearray(rows[parent]) if node else bytearray(len(parents))",
        "row = bytearray(rows[node - 1]) if node else bytearray(len(parents))",
        "test_target.py",
    ),
    Mutant(
        "positions of tree nodes count nodes instead of levels",
        "jakiro/target.py",
        "places = depths + length",
        "places = torch.arange(len(levels), device=self.device) + length",
        "test_target.py",
    ),
    Mutant(
        "features of rounds that were copied are lost to the head",
        "jakiro/drafting/copying.py",
        "            self._unread.append(context.features)",
        "            pass",
        "test_copying.py",
    ),
    Mutant(
        "of several matches the shortest is copied",
        "jakiro/drafting/copying.py",
        "for size in reversed(self._sizes) if size",
        "for size in self._sizes if size",
        "test_copying.py test_prompt_lookup.py",
    ),
    Mutant(
        "a copy tells what the head knew of its last draft",
        "jakiro/drafting/copying.py",
        "return {} if self._copies else self.other.inspect(tree, picks)",
        "return self.other.inspect(tree, picks)",
        "test_copying.py",
    ),
    Mutant(
        "the frontier hangs under the wrong rows",
        "jakiro/drafting/builder.py",
        "return self._tokens[-1].index_select(0, chosen), chosen // self.width",
        "return self._tokens[-1].index_select(0, chosen), chosen % self.width",
        "test_builder.py test_drafting.py",
    ),
    Mutant(
        "the rerank lets go of path scores",
        "jakiro/drafting/builder.py",
        "scores = children.logprobs if self._frontier is None else self._frontier[:, None] + children.logprobs",
        "scores = children.logprobs",
        "test_builder.py test_drafting.py",
    ),
    Mutant(
        "a tree node of the head does not see its ancestors",
        "jakiro/drafting/state.py",
        "rows.above.copy_(rows.above.index_select(0, parents))",
        "rows.above.copy_(rows.above)",
        "test_drafting.py test_head.py",
    ),
    Mutant(
        "the head's tree levels all sit at one position",
        "jakiro/drafting/state.py",
        "here = slice(self.length + index, self.length + index + 1)",
        "here = slice(self.length, self.length + 1)",
        "test_drafting.py test_head.py",
    ),
    Mutant(
        "drafts share the noise of the position before",
        "jakiro/drafting/drafter.py",
        "rows = noise.at(range(start, start + self.settings.depth)) / self.settings.draft_temperature",
        "rows = noise.at(range(start - 1, start - 1 + self.settings.depth)) / self.settings.draft_temperature",
        "test_drafting.py",
    ),
    Mutant(
        "the contrastive level has the noise of the level above it",
        "jakiro/methods/jakiro.py",
        "levels.append(level + 1)",
        "levels.append(level)",
        "test_drafting.py",
    ),
    Mutant(
        "a tape of a draft serves every temperature",
        "jakiro/drafting/drafter.py",
        "self.run(self._grow, context, *noise, kind=heat)",
        "self.run(self._grow, context, *noise, kind=bool(heat))",
        "test_tape.py",
    ),
    Mutant(
        "noise that is kept is that of the positions asked for first",
        "jakiro/noise.py",
        "if missing := [position for position in dict.fromkeys(positions) if position not in self._rows]:",
        "if missing := [position for position in dict.fromkeys(positions) if not self._rows]:",
        "test_verify.py test_engine.py",
    ),
    Mutant(
        "columns of a contrastive level are those of its parents' neighbours",
        "jakiro/drafting/passes.py",
        "return tuple(part.index_select(0, self.rows) for part in self.known)",
        "return tuple(part[: len(self.rows)] for part in self.known)",
        "test_drafting.py test_columns.py",
    ),
    Mutant(
        "of equally likely tokens one ranks after itself",
        "jakiro/drafting/columns.py",
        "smaller = torch.arange(laws.shape[-1], device=laws.device) < ids[tied]",
        "smaller = torch.arange(laws.shape[-1], device=laws.device) <= ids[tied]",
        "test_columns.py",
    ),
    Mutant(
        "a token that two experts propose counts twice where another is ranked",
        "jakiro/drafting/columns.py",
        "inside = (ahead & first).sum(-1)",
        "inside = ahead.sum(-1)",
        "test_columns.py",
    ),
    Mutant(
        "a lane goes on until the others have had no turn",
        "jakiro/ui/race.py",
        "if index not in running or self.lanes[index].seconds > self.lanes[behind].seconds + TURN:",
        "if index not in running:",
        "test_race.py",
    ),
    Mutant(
        "a level is fed with its neighbours' features instead of its parents'",
        "jakiro/drafting/drafter.py",
        "features = before.features.index_select(0, rows)",
        "features = before.features[: len(rows)] if level > 1 else before.features.index_select(0, rows)",
        "test_drafting.py test_head.py",
    ),
    Mutant(
        "features are paired with their own token instead of the next",
        "jakiro/drafting/drafter.py",
        "fresh = context.tokens[-len(context.features) :]",
        "fresh = context.tokens[-len(context.features) - 1 : -1]",
        "test_drafting.py test_head.py",
    ),
    Mutant(
        "the contrast subtracts the heavier expert",
        "jakiro/drafting/head.py",
        "heaviest = logits.sort(dim=-1, stable=True).indices[..., -1:]",
        "heaviest = logits.sort(dim=-1, stable=True).indices[..., :1]",
        "test_drafting.py test_head.py",
    ),
    Mutant(
        "the contrastive level is never aligned with its parents",
        "jakiro/methods/jakiro.py",
        "return before.ahead.take(rows) if self.settings.aligned else before.ahead",
        "return before.ahead",
        "test_head.py test_drafting.py",
    ),
    Mutant(
        "the experts are merged without the gate",
        "jakiro/methods/jakiro.py",
        "return (logprobs + weights.log().T[..., None]).logsumexp(0).clamp_max(0.0)",
        "return (logprobs - 0.6931).logsumexp(0).clamp_max(0.0)",
        "test_head.py test_drafting.py",
    ),
    Mutant(
        "a recorded pass does not see the last token before the tree",
        "jakiro/models/fixed.py",
        "visible = (into < 0) | (inside & seen.index_select(1, node))",
        "visible = (into < -1) | (inside & seen.index_select(1, node))",
        "test_programs.py",
    ),
    Mutant(
        "a sliding window counts rows of the cache instead of positions",
        "jakiro/target.py",
        "torch.cat([torch.arange(length, device=self.device), places])",
        "torch.arange(length + len(parents), device=self.device)",
        "test_target.py",
    ),
    Mutant(
        "a recorded pass takes the tree's rows for the text's in a sliding window",
        "jakiro/models/fixed.py",
        "places = torch.where(into < 0, into + length, positions.index_select(0, node))",
        "places = into + length",
        "test_programs.py",
    ),
    Mutant(
        "a recorded pass keeps the text's length of its recording",
        "jakiro/models/fixed.py",
        "own = torch.arange(known, nodes, device=tokens.device) + length",
        "own = torch.arange(known, nodes, device=tokens.device) + cache.length",
        "test_programs.py",
    ),
    Mutant(
        "a recorded pass over a level sees what the first nodes of its tree do",
        "jakiro/target.py",
        "program.load(list(tokens), levels, seen[known:], length)",
        "program.load(list(tokens), levels, seen[: len(tokens)], length)",
        "test_draft_model.py",
    ),
    Mutant(
        "a draft model keeps the row after that of an accepted node",
        "jakiro/methods/draft_model.py",
        "[node - 1 for node in drafted.along(tokens[self._length : -1])]",
        "[*drafted.along(tokens[self._length : -1])]",
        "test_draft_model.py",
    ),
    Mutant(
        "a draft model hangs each level under the first one",
        "jakiro/methods/draft_model.py",
        "above = max(0, known - self.width)",
        "above = min(1, known - 1)",
        "test_draft_model.py",
    ),
    Mutant(
        "a draft model forgets what it drafted",
        "jakiro/methods/draft_model.py",
        "cache.keep(self._length, [node - 1 for node in drafted.along(tokens[self._length : -1])])",
        "cache.keep(self._length, [])",
        "test_draft_model.py",
    ),
    Mutant(
        "a recorded draft sees a row that is not of the text",
        "jakiro/drafting/state.py",
        "columns >= self._start + self._count, -torch.inf",
        "columns > self._start + self._count, -torch.inf",
        "test_programs.py",
    ),
    Mutant(
        "every compiled layer reads and writes the first one's rows",
        "jakiro/cache.py",
        "return OneLayer([self._layers[layer]],",
        "return OneLayer([self._layers[0]],",
        "test_compiled.py",
    ),
    Mutant(
        "each shape that a layer is compiled for is one of eight",
        "jakiro/programs.py",
        "with torch._dynamo.config.patch(recompile_limit=SHAPES, accumulated_recompile_limit=SHAPES):",
        "if True:",
        "test_compiled.py test_training_compiled.py",
    ),
    Mutant(
        "attention of few queries on CUDA leaves the mask out",
        "jakiro/models/attention.py",
        "-torch.inf) if mask.dtype == torch.bool else scores + mask",
        "-torch.inf) if mask.dtype == torch.bool else scores",
        "test_attention.py",
    ),
    Mutant(
        "programs outlive the storage that they were recorded on",
        "jakiro/cache.py",
        "            self.programs.clear()",
        "            pass",
        "test_programs.py",
    ),
    Mutant(
        "a draft's levels see the target's features of positions that they draft themselves",
        "jakiro/drafting/head.py",
        "seen = [back >= passes - 1, *(back == passes - one for one in range(2, passes + 1))]",
        "seen = [back >= 0, *(back == passes - one for one in range(2, passes + 1))]",
        "test_training_heads.py",
    ),
    Mutant(
        "all processes of a training run take the same rows",
        "jakiro/training/workers.py",
        "return slice(accelerator.process_index * each, (accelerator.process_index + 1) * each)",
        "return slice(0, each)",
        "test_workers.py",
    ),
    Mutant(
        "sharded heads are trained without exchanging gradients",
        "jakiro/training/workers.py",
        "return fully_shard(module, mesh=mesh)",
        "return module",
        "test_workers.py",
    ),
    Mutant(
        "the mark that asks for an answer counts as said",
        "jakiro/training/data.py",
        "spans.append((len(asked), len(whole) - ",
        "spans.append((len(asked) - len('<|assistant|>'), len(whole) - ",
        "test_packing.py",
    ),
    Mutant(
        "a product with a laid-out weight forgets what it is added to",
        "jakiro/models/products.py",
        "return residual + self._packed.multiply(x)",
        "return self._packed.multiply(x)",
        "test_products.py",
    ),
    Mutant(
        "layers that multiply once take what was made of another input",
        "jakiro/models/products.py",
        'if last.get("x") is not x or at not in last["parts"]:',
        'if at not in last.get("parts", ()):',
        "test_products.py",
    ),
    Mutant(
        "a tape leaves out what is written in place",
        "jakiro/tape.py",
        "self._lines += [call] if schema.is_mutable else []",
        "self._lines += []",
        "test_tape.py",
    ),
    Mutant(
        "a tape reads the inputs that it was written with",
        "jakiro/tape.py",
        'self._names = {id(one): f"inputs[{at}]" for at, one in enumerate(inputs)}',
        "self._names = {}",
        "test_tape.py",
    ),
    Mutant(
        "runs with other settings share a draft's tape",
        "jakiro/drafting/drafter.py",
        "TapedState(*sizes, key=(type(self), replace(settings, lookup=0)))",
        "TapedState(*sizes, key=type(self))",
        "test_tape.py",
    ),
    Mutant(
        "weights are rounded to float16 whatever they are",
        "jakiro/models/products.py",
        'return weight.numel() >= self.smallest and (self.way != "halves" or fits_halves(weight))',
        "return weight.numel() >= self.smallest",
        "test_products.py",
    ),
    Mutant(
        "long conversations are lost where short rows are filled",
        "jakiro/training/packing.py",
        "found[wider].append(document)",
        "found[min(wider, 0)].append(document)",
        "test_training_target.py",
    ),
    Mutant(
        "a recent token counts as often as it was there",
        "jakiro/training/repeats.py",
        "counted = (gaps > back) & (recent != ids[:, 1:, None]) & (recent != 0)",
        "counted = (recent != ids[:, 1:, None]) & (recent != 0)",
        "test_repeats.py",
    ),
    Mutant(
        "a run is gone on with by another recipe, target or data",
        "jakiro/training/claims.py",
        "if other := [name for name in own | kept if own.get(name) != kept.get(name)]:",
        "if other := []:",
        "test_training_runs.py",
    ),
    Mutant(
        "a system message decides what is held out",
        "jakiro/training/sources.py",
        'first = next((message for message in spoken if message["role"] == "user"), spoken[0])',
        "first = spoken[0]",
        "test_training_data.py",
    ),
    Mutant(
        "a head is trained on the features that it reads instead of the next",
        "jakiro/training/head_job.py",
        "soon = Wanted.of(read, last[:, 1:-1].flatten(0, 1)[at], kept)",
        "soon = Wanted.of(read, last[:, :-2].flatten(0, 1)[at], kept)",
        "test_training_losses.py",
    ),
    Mutant(
        "heads are scored where the assistant has spoken, not where it will",
        "jakiro/training/head_job.py",
        "at = said[:, 2:-1].float().flatten().multinomial(scored, replacement=True)",
        "at = said[:, 1:-2].float().flatten().multinomial(scored, replacement=True)",
        "test_training_losses.py",
    ),
    Mutant(
        "the last weights are kept instead of their average",
        "jakiro/training/head_job.py",
        "kept = self.averages[name].module if name in self.averages else module",
        "kept = module",
        "test_training_losses.py",
    ),
    Mutant(
        "a target is trained to say each token again",
        "jakiro/training/target_job.py",
        "entropy = total - logits.gather(-1, ids[:, 1:, None])[..., 0]",
        "entropy = total - logits.gather(-1, ids[:, :-1, None])[..., 0]",
        "test_training_losses.py",
    ),
    Mutant(
        "positions that only fill up a process's part count",
        "jakiro/training/losses.py",
        "law, best = law * kept[:, None], torch.where(kept, best, -1)",
        "pass",
        "test_training_compiled.py",
    ),
    Mutant(
        "an EAGLE-3 head's own numbers are taken for the target's tokens",
        "jakiro/methods/eagle3.py",
        "return Step(Children(self.head.tokens[tokens], scores), features, (logprobs,))",
        "return Step(Children(tokens, scores), features, (logprobs,))",
        "test_eagle3.py",
    ),
    Mutant(
        "an EAGLE-3 head reads another layer",
        "jakiro/drafting/eagle3_head.py",
        "usual = 2, count // 2, count - 3",
        "usual = 1, count // 2, count - 3",
        "test_eagle3.py",
    ),
    Mutant(
        "the level below reads what EAGLE-3.1 has not normed yet",
        "jakiro/drafting/eagle3.py",
        "return self.last_norm(answers) if self.config.norm_output else answers",
        "return answers",
        "test_eagle3.py",
    ),
    Mutant(
        "the residual begins with what is not normed",
        "jakiro/drafting/eagle3.py",
        "torch.cat(parts if self.config.norm_before_residual else [*parts, hidden], dim=-1)",
        "torch.cat([*parts, hidden], dim=-1)",
        "test_eagle3.py",
    ),
    Mutant(
        "queries are not normed",
        "jakiro/drafting/fused.py",
        "torch.cat([self.query_norm(turning[:, :heads]), self.key_norm(turning[:, heads:])], dim=1)",
        "torch.cat([turning[:, :heads], self.key_norm(turning[:, heads:])], dim=1)",
        "test_eagle3.py",
    ),
    Mutant(
        "a head's texts see one another where they share a row in training",
        "jakiro/drafting/head.py",
        "            mask = (mask & (texts[:, :, None] == texts[:, None]).repeat(1, 1, count))[:, None]",
        "            mask = mask[None, None]",
        "test_training_heads.py",
    ),
    Mutant(
        "the target reads the texts of a row as one where heads are trained",
        "jakiro/training/head_job.py",
        '        where = {} if texts is None else {"position_ids": positions(texts)}',
        "        where = {}",
        "test_training_heads.py",
    ),
    Mutant(
        "an EAGLE-3 head is trained on the target's features alone, not on its own answers",
        "jakiro/training/unrolled.py",
        "            read = _next(fused, answers, texts)",
        "            read = fused",
        "test_training_eagle3.py",
    ),
    Mutant(
        "auto trees of all heads are measured on the features that the first one reads",
        "jakiro/measuring/tuning.py",
        "reads = make(some).reads",
        "reads = ()",
        "test_tuning.py",
    ),
    Mutant(
        "what is auto is measured on greedy answers whatever the temperature",
        "jakiro/measuring/tuning.py",
        "self._written[reads, sampling] = write(target, lambda: make(some), self.prompts, sampling, pulse)",
        "self._written[reads, sampling] = write(target, lambda: make(some), self.prompts, GREEDY, pulse)",
        "test_tuning.py",
    ),
    Mutant(
        "passes are timed with greedy picks whatever the temperature",
        "jakiro/measuring/rehearsal.py",
        "picks = Picks(logits, [place + depth for depth in depths], sampling, noise)",
        "picks = Picks(logits, [place + depth for depth in depths], GREEDY, noise)",
        "test_tuning.py",
    ),
    Mutant(
        "an interval is as narrow as if a task's few prompts were all there are",
        "jakiro/measuring/bootstrap.py",
        "size=(draws, prompts - 1)",
        "size=(draws, prompts)",
        "test_experiment.py",
    ),
    Mutant(
        "ratios of an experiment are not paired",
        "jakiro/measuring/bootstrap.py",
        '"over_reference": tau / tau[base]',
        '"over_reference": tau / tau[base].mean()',
        "test_experiment.py",
    ),
    Mutant(
        "a part of a larger model keeps the layers that change least",
        "jakiro/training/pruning.py",
        "inner = sorted(range(1, last), key=lambda at: -influence[at].item())",
        "inner = sorted(range(1, last), key=lambda at: influence[at].item())",
        "test_training_pruning.py",
    ),
    Mutant(
        "a part's units are chosen by what goes into them, not by what is read of them",
        "jakiro/training/pruning.py",
        "return influence / tokens, units / tokens * torch.stack(columns)",
        "return influence / tokens, units / tokens",
        "test_training_pruning.py",
    ),
    Mutant(
        "answers written in batches go on with the rows of others once some have ended",
        "jakiro/models/generation.py",
        "cache.batch_select_indices(left)",
        "cache.batch_select_indices(left.flip(0))",
        "test_generation.py",
    ),
    Mutant(
        "a task of few rounds weighs as much in a method's acceptance as one of many",
        "jakiro/measuring/report.py",
        'sum(rate[at] * row["rounds"] for rate, row in zip(rates, found, strict=True))',
        "sum(rate[at] * rounds / len(found) for rate in rates)",
        "test_report.py",
    ),
    Mutant(
        "what drafting allows is held against vanilla's bare networks, not its round",
        "jakiro/measuring/tables.py",
        'most = row["tau"] * ideal["vanilla"]["round_s"] / ideal[name]["ideal_round_s"]',
        'most = row["tau"] * ideal["vanilla"]["ideal_round_s"] / ideal[name]["ideal_round_s"]',
        "test_report.py",
    ),
    Mutant(
        "means of a report are of its highest temperature",
        "jakiro/measuring/report.py",
        "wanted = temperatures(report)[0] if temperature is None",
        "wanted = temperatures(report)[-1] if temperature is None",
        "test_report.py",
    ),
    Mutant(
        "bars of a round against its limits stand under other methods' names",
        "jakiro/ui/figures/benchmark.py",
        "lines = [found[name] for name in found][::-1]",
        "lines = [found[name] for name in found]",
        "test_benchmark_view.py",
    ),
    Mutant(
        "accepted tokens are divided by the text's, not by those drafted",
        "jakiro/metrics.py",
        '"draft_acceptance_rate": _ratio(accepted, drafted)',
        '"draft_acceptance_rate": _ratio(accepted, len(trace.tokens))',
        "test_metrics.py",
    ),
    Mutant(
        "a token's probability is taken from wherever the tree has it",
        "jakiro/metrics.py",
        "if node := step.tree.children().get((parent, token)):",
        "if node := step.tree.tokens.index(token, 1) if token in step.tree.tokens[1:] else 0:",
        "test_metrics.py",
    ),
    Mutant(
        "a margin mixes the probabilities of two runs where one knows both",
        "jakiro/metrics.py",
        "sources = ((ours, ours), (theirs, theirs), (ours, theirs))",
        "sources = ((ours, theirs), (ours, ours), (theirs, theirs))",
        "test_metrics.py",
    ),
    Mutant(
        "the router is judged where the walk never stood",
        "jakiro/analysis/routing.py",
        "acceptance=_acceptance([gate for gate in gates if gate.walked])",
        "acceptance=_acceptance(gates)",
        "test_metrics.py",
    ),
    Mutant(
        "what both experts propose counts as a rescue",
        "jakiro/analysis/diversity.py",
        "sum(accepted[:2])",
        "sum(accepted[:3])",
        "test_metrics.py",
    ),
    Mutant(
        "a headline gives one expert the other's rescues",
        "jakiro/ui/headline.py",
        "{counted(alone[0], 'token')} in expert 0's, {alone[1]} in",
        "{counted(alone[1], 'token')} in expert 0's, {alone[0]} in",
        "test_classes.py",
    ),
    Mutant(
        "a thread keeps what hooks saw in its last pass",
        "jakiro/target.py",
        "seen.clear()  # a thread keeps them for good, and a prompt may be long",
        "pass",
        "test_eagle3.py",
    ),
    Mutant(
        "the shortest prompts of a chunk are answered first, and greedily",
        "jakiro/training/answers.py",
        'random.Random(f"{seed} {number}").shuffle(starts)',
        "pass",
        "test_training_heads.py",
    ),
    Mutant(
        "a target answers in the type of its file",
        "jakiro/training/head_rows.py",
        "model = lesson.model.to(product_dtype(accelerator.device))  # a file's",
        "model = lesson.model  # a file's",
        "test_training_heads.py",
    ),
    Mutant(
        "one expert alone answers with the first one's weights",
        "jakiro/drafting/fused.py",
        "down = self.down.weight[:, expert * self.inner : (expert + 1) * self.inner]",
        "down = self.down.weight[:, : self.inner]",
        "test_drafting.py",
    ),
    Mutant(
        "a budget that is not full is said to have cut",
        "jakiro/analysis/stops.py",
        "return LOW if full and score",
        "return LOW if score",
        "test_stops.py",
    ),
    Mutant(
        "token recycling learns nothing from rejected nodes",
        "jakiro/methods/token_recycling.py",
        "tokens, logits = context.tree.tokens, context.logits",
        "tokens, logits = context.tree.tokens[:1], context.logits[:1]",
        "test_token_recycling.py",
    ),
    Mutant(
        "rounds decoded again know nothing of what the rounds before had rejected",
        "jakiro/branch.py",
        "drafter.memory = dict(memory)",
        "drafter.memory = {}",
        "test_branch.py",
    ),
    Mutant(
        "a draft model goes deeper than there is room",
        "jakiro/methods/draft_model.py",
        "return min(self.settings.depth, context.room, self.model.context - len(context.tokens) + 1)",
        "return min(self.settings.depth, self.model.context - len(context.tokens) + 1)",
        "test_draft_model.py",
    ),
    Mutant(
        "smaller heads are held against the reference",
        "jakiro/measuring/findings.py",
        " and abs(head[one] / head[own] - 1) < NEARLY]",
        "]",
        "test_experiment.py",
    ),
    Mutant(
        "one side of a what-if gets the other's rounds",
        "jakiro/branch.py",
        "for found, step in zip(steps, turn, strict=True):",
        "for found, step in zip(steps, turn[::-1], strict=True):",
        "test_branch.py",
    ),
    Mutant(
        "a head's gradient that is no number is not looked at",
        "jakiro/training/head_job.py",
        "for name, value in found.items()} | norms",
        "for name, value in found.items()} | dict.fromkeys(norms, torch.ones(()))",
        "test_training_losses.py",
    ),
    Mutant(
        "the experts' own distributions are mixed by the gate of the contrast",
        "jakiro/training/losses.py",
        "gates = _take(out.gates, at).float()[:, : len(own)].log_softmax(dim=-1)",
        "gates = _take(out.gates, at).float()[:, len(own) :].log_softmax(dim=-1)",
        "test_training_heads.py",
    ),
    Mutant(
        "a sentence is asked for by words that others begin with",
        "jakiro/training/leads.py",
        "and passage.count(begin) == 1",
        "and passage.count(begin) >= 1",
        "test_training_leads.py",
    ),
    Mutant(
        "a sure row ends the search for the nucleus of all rows",
        "jakiro/verify.py",
        "(ordered.double().sum(-1) >= top_p).all()",
        "(ordered.double().sum(-1) >= top_p).any()",
        "test_verify.py",
    ),
    Mutant(
        "a node of a file may be its own parent",
        "jakiro/tree.py",
        "if not 0 <= parent < node:",
        "if not 0 <= parent <= node:",
        "test_trace.py",
    ),
    Mutant(
        "picks beside the text are made with the noise of the position before",
        "jakiro/compare.py",
        "[at + 1 + depth for depth in tree.depths()]",
        "[at + depth for depth in tree.depths()]",
        "test_compare.py",
    ),
    Mutant(
        "bare passes of a draft make its text longer",
        "jakiro/drafting/drafter.py",
        "        self._state.length = length\n",
        "",
        "test_limits.py",
    ),
    Mutant(
        "a pass of an EAGLE-3 draft reads fc every time",
        "jakiro/methods/eagle3.py",
        "return self.head.nbytes - self.head.fc.nbytes",
        "return self.head.nbytes",
        "test_limits.py",
    ),
    Mutant(
        "a round's floor has one pass of its draft",
        "jakiro/measuring/limits.py",
        "whole = floor + passes * pass_bytes / bandwidth",
        "whole = floor + pass_bytes / bandwidth",
        "test_limits.py",
    ),
    Mutant(
        "ratios of an experiment are to its first variant, not to its reference",
        "jakiro/measuring/bootstrap.py",
        '"over_reference": tau / tau[base]',
        '"over_reference": tau / tau[0]',
        "test_experiment.py",
    ),
    Mutant(
        "short documents go into wider rows that are full already",
        "jakiro/training/packing.py",
        "if wider == own else -size",
        "if wider == own else 0",
        "test_packing.py",
    ),
]


def planted(mutant: Mutant) -> str:
    """The mutant's file with its mistake. Raises ValueError where the line is not to be found once."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.line) != 1:
        raise ValueError(f"{mutant.file} has this line {text.count(mutant.line)} times, expected 1: {mutant.line}")
    return text.replace(mutant.line, mutant.instead)


def caught(mutant: Mutant) -> bool:
    """Whether the mutant's tests fail."""
    with tempfile.TemporaryDirectory() as folder:
        copy = _copy(Path(folder))
        (copy / mutant.file).write_text(planted(mutant), encoding="utf-8")
        return bool(_failure(copy, mutant.tests))


def check_tests(mutants: list[Mutant]) -> None:
    """Raise ValueError if there is no mistake, if one cannot be planted, or if tests fail without any: they would seem
    to catch it."""
    if not mutants:
        raise ValueError("no mistake has that text in its file or description")
    for mutant in mutants:
        planted(mutant)
    names = sorted({name for mutant in mutants for name in mutant.tests.split()})
    with tempfile.TemporaryDirectory() as folder:
        if failure := _failure(_copy(Path(folder)), " ".join(names)):
            raise ValueError(f"tests fail without any mistake:\n{failure}")


def _copy(folder: Path) -> Path:
    """What the tests need of the tree, in `folder`."""
    for part in NEEDED:
        source = ROOT / part
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, folder / part) if source.is_dir() else shutil.copy(source, folder / part)
    return folder


def _failure(copy: Path, tests: str) -> str:
    """The end of what pytest says where a test fails, or "". Raises ValueError where the tests did not run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"tests/{name}" for name in tests.split()]
    result = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    said = f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
    if result.returncode not in (0, 1):  # neither passed nor failed
        raise ValueError(f"pytest ended with {result.returncode}:\n{said}")
    return said if result.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run the mutants whose file or description contains this")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in f"{mutant.file}: {mutant.what}"]
    try:
        check_tests(chosen)
    except ValueError as error:
        parser.error(str(error))
    survivors = 0
    for mutant in chosen:
        found = caught(mutant)
        survivors += not found
        print(f"{'caught  ' if found else 'SURVIVED'}  {mutant.file}: {mutant.what}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
