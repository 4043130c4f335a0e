"""What no value shows by itself: each rule looks over the settled document and names what it finds.

Rules work on the document, not on the `Config`, so that they also run where other values are wrong:
everything is reported at once. What is wrong by itself is absent here.
"""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from homeport.config.kind import Address
from homeport.config.problem import Path
from homeport.config.schema import Admin, Gateway

Fault: TypeAlias = tuple[Path, str, str]
"""Where, what, and what to do."""
Rule: TypeAlias = Callable[[Any, Mapping[str, str]], Iterator[Fault]]


def faults(document: Any, environ: Mapping[str, str]) -> Iterator[Fault]:
    """What all rules find."""
    for rule in RULES:
        yield from rule(document, environ)


def engines_differ(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """An engine that is listed twice would get twice its share."""
    return _repeated(document, "engines.*.url", "give each engine a URL of its own")


def tenants_differ(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """Names are labels in metrics; they must tell tenants apart."""
    return _repeated(document, "tenants.*.name", "give each tenant a name of its own")


def tenant_keys_differ(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """A key stands for one tenant."""
    return _repeated(document, "tenants.*.keys.*.sha256", "make a new key: `homeport key new`")


def anonymous_is_one(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """Calls without a key go to one tenant."""
    found = [path for path, value in _select(document, "tenants.*.anonymous") if value is True]
    for path in found[1:]:
        yield path, f"expected one anonymous tenant, {_named(found[0])} is one too", "keep one"


def tenants_can_be_reached(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """With neither a key nor anonymity only a trusted peer can name a tenant."""
    if any(_select(document, "gateway.trusted_peers.*")):
        return
    for path, tenant in _select(document, "tenants.*"):
        if tenant.get("keys", []) == [] and tenant.get("anonymous", False) is False:
            message = "expected keys or anonymous: true, found neither"
            yield path, message, "`homeport key new` makes a key and the line for it"


def ports_differ(document: Any, _: Mapping[str, str]) -> Iterator[Fault]:
    """Clients and operators come in by different doors."""
    gateway = _address(document, "gateway.listen", Gateway().listen)
    admin = _address(document, "admin.listen", Admin().listen)
    if gateway and admin and gateway.port == admin.port != 0:
        at = (
            ("admin", "listen") if any(_select(document, "admin.listen")) else ("gateway", "listen")
        )
        yield at, f"gateway and admin both listen on port {admin.port}", "change one of the two"


def admin_is_guarded(document: Any, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Without a token only this machine may look in."""
    address = _address(document, "admin.listen", Admin().listen)
    names = [value for _, value in _select(document, "admin.token_env")] or [Admin().token_env]
    if address and not _is_loopback(address.host) and not environ.get(names[0]):
        yield (
            ("admin", "listen"),
            f"expected a token in {names[0]} for an address other than loopback, found none",
            f"export {names[0]}=... or listen on 127.0.0.1",
        )


def variables_are_set(document: Any, environ: Mapping[str, str]) -> Iterator[Fault]:
    """A secret that is named has to be there."""
    named = [*_select(document, "engines.*.api_key_env"), *_select(document, "journal.secret_env")]
    for path, name in named:
        if not environ.get(name):  # the name is not repeated: some write the secret in its place
            message = "expected the name of a variable that is set, found one that is not"
            yield path, message, "export it, or correct the name"


RULES: tuple[Rule, ...] = (
    engines_differ,
    tenants_differ,
    tenant_keys_differ,
    anonymous_is_one,
    tenants_can_be_reached,
    ports_differ,
    admin_is_guarded,
    variables_are_set,
)


def _select(document: Any, pattern: str) -> Iterator[tuple[Path, Any]]:
    """Every value at the dotted pattern, `*` being any position of a list; absent ones are not."""
    found: list[tuple[Path, Any]] = [((), document)]
    for part in pattern.split("."):
        found = [
            ((*path, step), value)
            for path, parent in found
            for step, value in _children(parent, part)
            if value is not None
        ]
    return iter(found)


def _children(parent: Any, part: str) -> Iterator[tuple[str | int, Any]]:
    if part == "*" and isinstance(parent, list):
        yield from enumerate(parent)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(parent, dict) and part in parent:
        yield part, parent[part]


def _repeated(document: Any, pattern: str, hint: str) -> Iterator[Fault]:
    first: dict[str, Path] = {}
    for path, value in _select(document, pattern):
        if value in first:
            yield path, f"expected to differ, {_named(first[value])} is the same", hint
        first.setdefault(value, path)


def _named(path: Path) -> str:
    return ".".join(str(part) for part in path)


def _address(document: Any, pattern: str, default: Address) -> Address | None:
    """The address, unless it is wrong by itself."""
    found = [value for _, value in _select(document, pattern)]
    return found[0] if found else default


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
