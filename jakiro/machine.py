"""What a run was made on: the device, the processor, the versions."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import torch
import transformers
from joblib import cpu_count

_OWN = Path(__file__).parent
_NOT_TIMED = {"commands", "doctor", "training", "ui"}  # folders whose code decides nothing about a run's speed
_PEAK, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")  # of Linux
_settled = 0  # objects that the last full collection left


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "device": device_name(device),
        "device_type": device.type,
        "cpu": device_name(torch.device("cpu")),
        "instructions": instructions(),
        "cores": cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def instructions() -> str:
    """The vector instructions that torch finds, as "AVX512 AVX512_BF16": processors of one name differ in them."""
    more = {"AVX512_BF16": torch.cpu._is_avx512_bf16_supported(), "AMX": torch.cpu._is_amx_tile_supported()}
    return " ".join([torch.backends.cpu.get_cpu_capability(), *(name for name, there in more.items() if there)])


def versions() -> dict[str, str]:
    """Package -> version of what decides a run's numbers."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def code() -> str:
    """Digest of the project's code that decides how quick decoding is."""
    found = hashlib.sha256()
    for file in sorted(_OWN.rglob("*.py")):
        name = file.relative_to(_OWN)
        if name.parts[0] not in _NOT_TIMED:
            found.update(f"{name.as_posix()}\0".encode() + file.read_bytes())
    return found.hexdigest()


def device_name(device: torch.device) -> str:
    """What the device calls itself: the GPU's or the processor's name, which is all that an mps device has."""
    if device.type in ("cuda", "xpu"):
        return getattr(torch, device.type).get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, platform.processor() or platform.machine())
    return f"{cpu} (mps)" if device.type == "mps" else cpu


def dtype_name(dtype: torch.dtype) -> str:
    """As "float32"."""
    return str(dtype).removeprefix("torch.")


def use_threads(count: int | None = None, spare: int = 0) -> int:
    """Compute with so many CPU threads from now on; None: with all that this process may use, less `spare` for others.

    Where a thread has to wait for its core, all others wait for it, so more than there are cores to run them cost most
    of the time. Torch asks the machine how many it has; a container's quota may be far less, as on a Space. Of two
    cores none is spared: half of the computing costs more than a browser beside it (benchmarks/load.json).
    """
    if count is None:
        cores = min(torch.get_num_threads(), cpu_count())
        count = max(1, cores - spare) if cores > 2 else cores
    torch.set_num_threads(count)
    return count


def settle() -> None:
    """Let the garbage collector pass over all that exists now: a full collection may stop a race for half a second.

    Where a tenth has come since the last full one, this one is full: what has become garbage meanwhile goes, too.
    """
    global _settled
    gc.collect()
    gc.freeze()
    if gc.get_freeze_count() > 1.1 * _settled:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _settled = gc.get_freeze_count()


def reset_peak(device: torch.device) -> None:
    """Let `peak_bytes` count from here."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _PEAK.exists() and os.access(_PEAK, os.W_OK):
        _PEAK.write_text("5")  # proc(5): resets the peak resident set size


def peak_bytes(device: torch.device) -> int | None:
    """Greatest memory in use since `reset_peak`: the device's, on a CPU the process's. None where it is not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type != "cpu" or not _STATUS.exists() or not os.access(_PEAK, os.W_OK):
        return None
    lines = _STATUS.read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
