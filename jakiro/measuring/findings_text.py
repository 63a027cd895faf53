"""The words of an experiment's page that are the same for each."""

NAMES = """\
*dense* is a head with one feed-forward part, *matched* one with as many parameters as the experts. *mixture*:
candidates come from the experts' weighted sum; *decoupled*: each expert proposes its own. Weights of the losses
(`jakiro/training/losses.py`): *feature* is the distance to the target's feature, *mixture* the cross-entropy of what
the sum says, *decoupled* that of the experts' own distributions, as the gate mixes them; *contrast* is the weight of
the contrastive feature, *diversity* of a term that keeps experts apart, *top_k* of cross-entropy over the target's ten
likeliest tokens alone. A *summed loss* is one without the experts' own, *misaligned* the setting `aligned=false`
(docs/words.md)."""
AGAIN = """\
The texts of the recipe are not in the repository: with `--data` of yours the same command makes other heads."""
EXPERTS = """\
Overlap is the share of the likeliest tokens (as many as `top_k`) that two experts share, js the Jensen-Shannon
divergence of their distributions in nats, both in the mean of the nodes of a level, then of the levels, then of the
prompts; rescued the share of rounds in which an accepted token was among the
likeliest of one expert alone. Temperature 0; the first prompts of each task."""
