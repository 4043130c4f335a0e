"""Who calls: tenants by API key, and peers that are trusted to speak for others."""

import hashlib
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from homeport.core.ids import TenantName
from homeport.core.refusal import Reason, Refusal
from homeport.wire.headers import Pair

UNAUTHENTICATED = Refusal(
    Reason.UNAUTHENTICATED,
    "A valid API key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`.",
)


class Tenants:
    """The tenants of the config, by the hashes of their keys. Keys themselves are nowhere."""

    def __init__(self, by_key_hash: Mapping[str, TenantName], anonymous: TenantName | None) -> None:
        self.by_key_hash = by_key_hash
        self.anonymous = anonymous

    def of(self, headers: Sequence[Pair]) -> TenantName | None:
        """The tenant of a request; None when it must be refused.

        Without keyed tenants every key is as good as none. With them a wrong key is refused even
        where anonymous calls are welcome: its sender believes to be somebody.
        """
        if not self.by_key_hash:
            return self.anonymous
        key = key_of(headers)
        if key is None:
            return self.anonymous
        return self.by_key_hash.get(hashlib.sha256(key).hexdigest())


def key_of(headers: Sequence[Pair]) -> bytes | None:
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            return key.strip() if scheme.lower() == b"bearer" else value
        if name == b"x-api-key":
            return value.strip()
    return None


class TrustedPeers:
    """Addresses that may set routing headers and see where a request went."""

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self.networks = networks

    def has(self, peer: str) -> bool:
        if not self.networks:
            return False
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self.networks)
