"""How an error is known that says there was too little memory, the device's or the machine's."""

from __future__ import annotations


def out_of_memory(error: Exception) -> bool:
    """Whether it is what torch or Python raises where there is no more."""
    said = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(one in str(error) for one in said)
