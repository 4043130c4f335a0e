"""A tenant's key: the config holds its hash alone."""

from hashlib import sha256


def key_hash(key: str) -> str:
    """What stands in `tenants[].keys[].sha256` for this key."""
    return sha256(key.encode()).hexdigest()
