"""The C allocator, told to keep what it has.

By default glibc returns large blocks to the system as soon as they are free, and each request with
a large body faults its pages in again: about a quarter of the cost of a 400 KB body.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 256 << 20
MAPPED_BYTES_MIN = 32 << 20
"""The most that glibc takes."""


def keep_memory() -> bool:
    """False where the allocator is not glibc's: then all stays as it was."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    is_kept = mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    return bool(is_kept and mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN))
