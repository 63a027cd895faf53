"""A job for the training loop that computes next to nothing."""

from __future__ import annotations


class Counter:
    """A job whose metric depends on its saved state and on the step, so that a lost or doubled step shows."""

    steps = 7

    def __init__(self):
        self.value = 1.0

    def states(self):
        return {"counter": self}

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]

    def step(self, index):
        self.value = self.value * 1.1 + index
        return {"value": self.value}
