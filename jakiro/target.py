"""The target: any Hugging Face causal language model, unmodified, that can score a draft tree in one pass.

A tree pass is the model's own forward with a 4-D mask (each node sees the committed text and its own ancestors) and
position ids (committed length + depth). Layers with a sliding window get a mask that also hides rows whose positions
are too far back. Features are the decoder's last hidden state after the final norm, taken by a forward hook: what the
output embedding reads, and what trained heads are fed with. A run may ask for the inputs of inner layers instead.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from jakiro.cache import KVCache, argument_of
from jakiro.models import hub, loading
from jakiro.models.checks import check_trees, measure, record_if_possible
from jakiro.models.compiled import compile_layers
from jakiro.models.fixed import ROWS, fixed_pass, padded
from jakiro.models.generation import end_ids
from jakiro.models.loading import DTYPES, check_request, choose_kernels, decoder_of, entered, load_model, load_tokenizer
from jakiro.models.products import lay_out
from jakiro.models.taped import taped_pass
from jakiro.models.trees import seen_of
from jakiro.models.windows import Form, Mask, alone
from jakiro.programs import replayable
from jakiro.tape import Tapes

LOG = logging.getLogger(__name__)
SIZES = 32  # of trees whose tapes are kept, 9 MB each of the embedded model


class Target:
    """A model with what the engine and the drafters need of it. It holds no state of a run: caches are arguments."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        heads: dict[str, str | Path] | None = None,
        name: str = "",
        path: Path | None = None,
        graphs: bool = True,
        compile: bool = False,
    ) -> None:
        """Wrap a loaded model. Raises ValueError if trees cannot be scored with it, saying why.

        With `graphs`, passes are recorded and replayed where device and model allow it: as CUDA graphs, or as tapes.
        With `compile`, what is recorded is made by torch.compile; ValueError where that is no CUDA graph.
        """
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name or type(model).__name__
        self.path = path
        self.heads = {name: Path(head) for name, head in (heads or {}).items()}  # method -> folder
        self.drafters: dict[Path, str] = {}  # folder -> what traces call the head that was read from it (`hub.signed`)
        self.device, self.dtype = model.device, model.dtype
        self.ends = end_ids(model, tokenizer)
        choose_kernels(self.device)
        self._seen = threading.local()  # what hooks saw in this thread's last pass: two threads may share a model
        self._hooked: set[int] = set()  # layers whose inputs are seen
        self.takes_cache = argument_of(model)  # the name of that argument
        self.decoder = decoder_of(model)
        self.hook = self.decoder.register_forward_hook(self._see)  # who has done with a target removes it
        self.context, self._shapes, self.window = measure(self)  # rows that sliding layers see; 0 without such
        self.form: Form = alone
        self.record_passes(False)
        self.vocab_size, self.hidden_size, self.logit_scale = check_trees(self)
        self.soft_cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)  # Gemma's and others'
        if compile:
            compile_layers(self.decoder)
        self.no_graphs = record_if_possible(self, graphs)  # why passes are not recorded; empty if they are
        if graphs and self.no_graphs:
            LOG.warning("%s, so its passes go on from Python, which is slower", self.no_graphs)
        self.compiled = compile
        if compile and not self.graphs:
            why = self.no_graphs or f"{self.device.type} has none"
            raise ValueError(f"only CUDA graphs are compiled, and {why}: leave out --compile")

    def record_passes(self, wanted: bool) -> None:
        """Or not, from now on: as CUDA graphs where `graphs` is true then, else as `tapes`."""
        self.graphs = wanted and replayable(self.device)
        self.tapes = Tapes(SIZES) if wanted and not self.graphs else None

    @classmethod
    def wrap(
        cls,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        heads: dict[str, str | Path] | None = None,
        name: str = "",
        **recorded: bool,  # graphs, compile
    ) -> Target:
        """A target from a model in memory: it is in eval mode then, without gradients, and must not be changed."""
        return cls(model, tokenizer, heads, name, **recorded)

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str = "cpu",
        dtype: str = "float32",
        attention: str | None = None,
        heads: dict[str, str | Path] | None = None,
        graphs: bool = True,
        chat_template: str | Path | None = None,
        compile: bool = False,
        system: str | None = None,
    ) -> Target:
        """Read a Hugging Face folder, or the hub's model of an id. Heads may be either, too.

        The target's sub-folders with a config.json are heads; `heads` adds to or replaces them. `chat_template` is a
        Jinja file in place of the tokenizer's own, `system` a message that goes before prompts in it. Without
        `attention` it is the model's choice: sdpa where it has that. Raises OSError or ValueError with the remedy.
        """
        check_request(device, dtype, attention, compile)
        folder = hub.local(path)
        hub.check(folder)
        found = hub.heads(folder, heads or {})
        loading.check_layers(folder)
        tokenizer = load_tokenizer(folder, chat_template, system)
        if not tokenizer.chat_template:
            LOG.warning(
                "%s has no chat template: prompts are sent bare; give it one with --chat-template FILE", hub.title(path)
            )
        model = load_model(folder, dtype=DTYPES[dtype], attn_implementation=attention)
        lay_out(model.to(device))
        return cls(model, tokenizer, found, hub.title(path), folder, graphs, compile)

    def new_cache(self, capacity: int, reads: Sequence[int] = ()) -> KVCache:
        """An empty cache with room for `capacity` rows; where passes are recorded, for a multiple of what one sees.

        With `reads`, features of its passes are the inputs of these layers side by side, [n, len(reads) * hidden]; the
        one after the last is the final norm.
        """
        if self.graphs:
            capacity = -(-capacity // ROWS) * ROWS
        for layer in {*reads} - self._hooked:
            read = entered(self.decoder, layer)
            read.register_forward_pre_hook(partial(self._see_input, layer), with_kwargs=True)
            self._hooked.add(layer)
        return KVCache(self._shapes, capacity, self.dtype, self.device, reads)

    def prefill(self, ids: Tensor, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Read a prompt [n] into an empty cache: logits [vocab] of its last token, features [n, hidden] of all."""
        assert cache.length == 0, "prefill needs a fresh cache"
        cache.reserve(len(ids))
        positions = torch.arange(len(ids), device=self.device)
        last = {"logits_to_keep": positions[-1:]}  # as a number it keeps features, too, of that token alone in Gemma 4
        logits, features = self._pass(ids, positions, None, cache, **last)  # no mask: plain causal kernels
        cache.keep(0, range(len(ids)))
        return logits[-1], features

    def score(
        self, tokens: Sequence[int], parents: Sequence[int], cache: KVCache, known: int = 0, spare: bool = False
    ) -> tuple[Tensor, Tensor]:
        """One pass over a tree whose node 0 follows the committed text: logits [n, vocab], features [n, hidden].

        The tree's rows are left in the cache after the committed ones, for `cache.keep`. Where passes are recorded the
        tensors are valid until the next pass of the same cache, and with `spare` a larger tree's program serves. A tree
        may grow pass by pass: of its m parents the first `known` are nodes whose rows are the last that were committed,
        and n = m - known, as there are tokens.
        """
        logits, features = self.bare(tokens, parents, cache, known, spare)()
        return logits[: len(tokens)], features[: len(tokens)]

    def bare(
        self, tokens: Sequence[int], parents: Sequence[int], cache: KVCache, known: int = 0, spare: bool = False
    ) -> Callable[[], tuple[Tensor, Tensor]]:
        """`score`'s pass with its inputs made, to be called as often as one likes; padding may follow the nodes."""
        length, (levels, seen) = cache.length - known, seen_of(parents)
        if self.graphs:
            cache.reserve(padded(len(tokens)))
            program = fixed_pass(cache, padded(len(tokens)), known, self._fixed, spare)
            program.load(list(tokens), levels, seen[known:], length)
            return program
        cache.reserve(len(tokens))
        ids, depths = (torch.tensor(part, device=self.device) for part in (tokens, levels))
        places = depths + length
        positions, mask = places[known:], None
        if len(parents) > 1 or self.tapes:  # without one on a tape, models make their own, of a size that is a number
            seen = torch.nn.functional.pad(seen[known:].to(self.device), (length, 0), value=True)
            mask = self.masks(seen, positions, torch.cat([torch.arange(length, device=self.device), places]))
        if self.tapes:
            return taped_pass(self.tapes, ids, positions, mask, cache, self._pass)
        return lambda: self._pass(ids, positions, mask, cache)

    def _fixed(
        self, tokens: Tensor, positions: Tensor, seen: Tensor, places: Tensor, rows: Cache
    ) -> tuple[Tensor, Tensor]:
        return self._pass(tokens, positions, self.masks(seen, positions, places), rows)

    def embed(self, tokens: Tensor) -> Tensor:
        """Input embeddings [..., hidden] of token ids [...], as the embedding table holds them."""
        return torch.nn.functional.embedding(tokens, self.model.get_input_embeddings().weight)  # Gemma's own scales

    def logits(self, features: Tensor) -> Tensor:
        """Output embedding of features, with the model's own scale and soft cap: [..., hidden] -> [..., vocab]."""
        logits = self.model.get_output_embeddings()(features)
        logits = logits if self.logit_scale == 1 else logits * self.logit_scale
        return self.soft_cap * (logits / self.soft_cap).tanh() if self.soft_cap else logits

    def no_number(self) -> ValueError:
        """What to raise where its logits are no numbers."""
        why = f"{self.name} answers with what is no number in {self.dtype}"
        return ValueError(f"{why}: use bfloat16 or float32, or other weights")

    def check_heads(self) -> None:
        """Raise ValueError where `logits` cannot read features: no head that predicts them drafts, none is trained."""
        if not self.logit_scale:
            raise ValueError(
                f"{self.name} does more to its last hidden state than its output embedding: heads that predict it "
                "cannot draft; use vanilla, prompt_lookup, token_recycling, draft_model or a trained eagle3 head"
            )

    def masks(self, seen: Tensor, positions: Tensor, places: Tensor) -> Mask:
        """`mask` in the model's form, from seen [n, rows] and the positions of a pass's tokens [n] and rows [rows]."""
        full = self.mask(seen)
        if not self.window:
            return full
        return self.form(full, self.mask(seen & (positions[:, None] - places < self.window)))

    def mask(self, seen: Tensor) -> Tensor:
        """[1, 1, n, rows] to add to scores, from seen [n, rows]: sdpa would make it of a boolean one in every layer."""
        blank = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
        return blank.masked_fill(~seen, torch.finfo(self.dtype).min)[None, None]

    def _pass(self, tokens: Tensor, positions: Tensor, mask: Mask | None, cache, **extra) -> tuple[Tensor, Tensor]:
        seen = vars(self._seen)
        seen["open"] = True  # else hooks keep nothing: of a training's forwards it would stay in memory
        given = {"attention_mask": mask, "use_cache": True, self.takes_cache: cache} | extra
        output = self.model(input_ids=tokens[None], position_ids=positions[None], **given)
        features = torch.cat([seen[layer] for layer in cache.reads], -1) if cache.reads else seen["last"]
        seen.clear()  # a thread keeps them for good, and a prompt may be long
        return output.logits[0], features[0]

    def _see(self, module, inputs, output) -> None:
        if seen := vars(self._seen):
            seen["last"] = output[0]  # last_hidden_state comes first in every model output

    def _see_input(self, layer: int, module, inputs, named) -> None:
        if seen := vars(self._seen):
            seen[layer] = inputs[0] if inputs else named["hidden_states"]
