"""What a run was made on, and how many threads it takes."""

import pytest
import torch

from jakiro import machine as machines
from jakiro.machine import code, device_name, machine, peak_bytes, reset_peak, use_threads

CPU = torch.device("cpu")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("there", "quota", "asked", "spare", "used"),
    [
        *((4, 4, None, 1, 3), (4, 4, None, 0, 4), (3, 3, None, 1, 2), (2, 2, None, 1, 2), (1, 4, None, 1, 1)),
        *((4, 4, 2, 1, 2), (4, 2, None, 0, 2), (4, 2, 3, 0, 3)),
    ],
)
def test_threads_are_those_that_may_run_unless_said_otherwise(threads, monkeypatch, there, quota, asked, spare, used):
    monkeypatch.setattr(machines, "cpu_count", lambda: quota)
    torch.set_num_threads(there)
    assert use_threads(asked, spare) == torch.get_num_threads() == machine(CPU)["threads"] == used
    assert machine(CPU)["cores"] == quota


@pytest.mark.parametrize(
    ("bf16", "amx", "told"), [(False, False, ""), (True, False, " AVX512_BF16"), (True, True, " AVX512_BF16 AMX")]
)
def test_the_processors_instructions_are_told(monkeypatch, bf16, amx, told):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert machine(CPU)["instructions"] == torch.backends.cpu.get_cpu_capability() + told


def test_devices_of_one_machine_have_names_of_their_own(monkeypatch):
    for kind in ("cuda", "xpu"):
        monkeypatch.setattr(getattr(torch, kind), "get_device_name", lambda device: f"{device.type} of somebody")
    cpu, *others = (device_name(torch.device(kind)) for kind in ("cpu", "mps", "cuda", "xpu"))
    assert others == [f"{cpu} (mps)", "cuda of somebody", "xpu of somebody"]


def test_code_that_decides_speed_is_told_from_other_code(tmp_path, monkeypatch):
    """By what it says, whatever else changes."""
    monkeypatch.setattr(machines, "_OWN", tmp_path)
    found = [code()]
    counted, others = ("", "drafting", "methods", "models"), ("ui", "training", "commands")
    for part, counts in [*((part, True) for part in counted), *((part, False) for part in others)]:
        (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / part / "one.py").write_text(part)
        found.append(code())
        assert (found[-1] != found[-2]) == counts


def test_the_peak_is_told_in_bytes(tmp_path, monkeypatch):
    """Linux counts it in kibibytes."""
    for name in ("_PEAK", "_STATUS"):
        monkeypatch.setattr(machines, name, tmp_path / name)
        (tmp_path / name).write_text("VmPeak:\t    9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1000 kB\n")
    assert peak_bytes(CPU) == 2 * 2**20


@pytest.mark.skipif(peak_bytes(CPU) is None, reason="this system does not tell")
def test_the_peak_is_that_since_the_reset():
    reset_peak(CPU)
    before = peak_bytes(CPU)
    large = torch.ones(64 * 2**20)
    assert peak_bytes(CPU) > before + 200 * 2**20
    del large
    reset_peak(CPU)
    assert peak_bytes(CPU) < before + 200 * 2**20
