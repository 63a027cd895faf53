"""How an error is known that says there was too little memory, the device's or the machine's."""

from __future__ import annotations


def out_of_memory(error: Exception) -> bool:
    """Whether it is what torch or Python raises where there is no more."""
    said = ("can't allocate memory", "cannot allocate memory", "error: out of memory", "cublas_status_alloc_failed")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(one in str(error).lower() for one in said)
