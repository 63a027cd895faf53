"""Training of embedded models: a small target from text, and draft heads on a target's features."""
