"""What a run was made on, and how many threads it takes."""

import pytest
import torch

from jakiro.machine import machine, peak_bytes, reset_peak, use_threads

CPU = torch.device("cpu")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("there", "asked", "used"), [(4, None, 3), (1, None, 1), (4, 2, 2)])
def test_a_core_is_left_to_others_unless_said_otherwise(threads, there, asked, used):
    torch.set_num_threads(there)
    assert use_threads(asked) == torch.get_num_threads() == machine(CPU)["threads"] == used


@pytest.mark.skipif(peak_bytes(CPU) is None, reason="this system does not tell")
def test_the_peak_is_that_since_the_reset():
    reset_peak(CPU)
    before = peak_bytes(CPU)
    large = torch.ones(64 * 2**20)
    assert peak_bytes(CPU) > before + 200 * 2**20
    del large
    reset_peak(CPU)
    assert peak_bytes(CPU) < before + 200 * 2**20
