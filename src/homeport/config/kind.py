"""How single values are written: each kind reads one from the file and says what it expected.

A kind is named in the schema by `x-kind`, beside `x-words` (words that stand for themselves, such
as `auto`; `none` stands for no value) and `x-least`. Reading either gives the typed value or raises
ValueError with a hint.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from msgspec import Struct

from homeport.config.source import Plain

KIB, MIB, GIB = 1024, 1024**2, 1024**3

_SIZES = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024**4,
}  # fmt: skip
_DURATIONS = {
    "us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6,
}  # fmt: skip
_COUNTS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_AMOUNT_MAX = 2**53  # what JSON and every language that reads it can hold exactly

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?) ?([A-Za-z]{0,3})")
_HOST = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+"
_ADDRESS = re.compile(rf"(?P<host>{_HOST})?:(?P<port>[0-9]{{1,5}})")
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z]+)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?P<rest>.*)", re.DOTALL
)


class Address(Struct, frozen=True):
    """Where to listen. Port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Kind(Struct, frozen=True):
    """One way to write a value; the pattern is what editors check, `read` is what counts."""

    expected: str
    pattern: str
    read: Callable[[Plain], object]
    show: Callable[[int], str] = str
    """A default as it would be written."""
    types: tuple[str, ...] = ("string",)
    is_secret: bool = False
    """Never repeat what was found: it may be what somebody meant to keep."""


def kind_read(value: Plain, schema: Mapping[str, Any]) -> object:
    """The value that stands in the file as its kind means it; ValueError with a hint."""
    if value in kind_words(schema):
        return None if value == "none" else value
    result = kind_named(schema).read(value)
    least = schema.get("x-least")
    if isinstance(least, int) and isinstance(result, int) and result < least:
        raise ValueError("must be more than 0" if least == 1 else f"must be at least {least}")
    return result


def kind_named(schema: Mapping[str, Any]) -> Kind:
    """The kind that this part of the schema names."""
    return KINDS[str(schema["x-kind"])]


def kind_words(schema: Mapping[str, Any]) -> list[str]:
    """Words that may stand in the value's place."""
    return schema.get("x-words", [])


def kind_expected(schema: Mapping[str, Any]) -> str:
    """A noun phrase for error messages and the reference."""
    return " or ".join([kind_named(schema).expected, *(f'"{word}"' for word in kind_words(schema))])


def _quantity(value: Plain, units: Mapping[str, int]) -> int:
    if isinstance(value, bool | None) or not isinstance(value, str | int | float):
        raise ValueError("")
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise ValueError("")
    number, unit = Fraction(found[1]), found[2]
    if unit not in units:
        raise ValueError(_quantity_hint(found[1], unit, units))
    amount = number * units[unit]
    if amount.denominator != 1 or amount > _AMOUNT_MAX:
        raise ValueError("must be a whole number, and not larger than 2^53")
    return amount.numerator


def _quantity_hint(number: str, unit: str, units: Mapping[str, int]) -> str:
    alike = [known for known in units if known.lower() == unit.lower()]
    alike += [known for known in units if known and unit and known[0].lower() == unit[0].lower()]
    if not unit and "s" in units:
        alike = ["s"]
    names = ", ".join(name for name in units if name)
    return f'did you mean "{number}{alike[0]}"?' if alike else f"the units are {names}"


def _size(value: Plain) -> int:
    return _quantity(value, {"": 1, **_SIZES})


def _duration(value: Plain) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else _quantity(value, _DURATIONS)


def _count(value: Plain) -> int:
    return _quantity(value, _COUNTS)


def _shown(units: Mapping[str, int]) -> Callable[[int], str]:
    def show(amount: int) -> str:
        """The largest unit that divides it."""
        whole = [unit for unit, size in units.items() if amount % size == 0]
        unit = max(whole, key=lambda name: units[name])
        return f"{amount // units[unit]}{unit}"

    return show


def _text(value: Plain) -> str:
    if not isinstance(value, str):
        raise ValueError(
            "" if isinstance(value, list | dict | None) else f'write it in quotes: "{value}"'
        )
    if not value or not value.isprintable() or value != value.strip():
        raise ValueError("no line breaks, and no space at the ends")
    return value


def _port(digits: str) -> int:
    if int(digits) > 65535:
        raise ValueError("ports go up to 65535")
    return int(digits)


def _host(name: str) -> str:
    if not name.startswith("["):
        return name.lower()
    try:
        return str(ipaddress.IPv6Address(name[1:-1]))
    except ValueError:
        raise ValueError(f"{name} is not an IPv6 address") from None


def _address(value: Plain) -> Address:
    found = _ADDRESS.fullmatch(_text(value))
    if found is None:
        raise ValueError("write host:port, an IPv6 address in brackets")
    if not found["host"]:
        raise ValueError(f"to listen on every interface write 0.0.0.0:{found['port']}")
    return Address(_host(found["host"]), _port(found["port"]))


def _engine_url(value: Plain) -> str:
    found = _URL.fullmatch(_text(value))
    if found is None:
        raise ValueError("write the scheme, the host and the port: http://127.0.0.1:8001")
    scheme = found["scheme"].lower()
    if scheme == "https":
        raise ValueError("https is not supported yet in this version; use http")
    if scheme != "http":
        raise ValueError(f"{scheme} is not supported; use http")
    if found["rest"] not in ("", "/"):
        raise ValueError(f'leave out "{found["rest"]}": requests bring their own path')
    host = found["host"] if found["host"][0] != "[" else f"[{_host(found['host'])}]"
    port = 80 if found["port"] is None else _port(found["port"])
    if port == 0:
        raise ValueError("an engine has a port of its own")
    return f"http://{host.lower()}" + ("" if port == 80 else f":{port}")


def _peer(value: Plain) -> str:
    try:
        return str(ipaddress.ip_network(_text(value), strict=False))
    except ValueError:
        raise ValueError("write 10.0.0.0/8 or 192.0.2.7, not a name") from None


def _url_path(value: Plain) -> str:
    text = _text(value)
    if not re.fullmatch(r"/[^\s?#]*", text):
        raise ValueError("begin with a slash; no spaces, no ? and no #")
    return text


def _variable(value: Plain) -> str:
    text = _text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("write the name alone, not ${NAME}")
    return text


def _sha256(value: Plain) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9A-Fa-f]{64}", value):
        raise ValueError("`homeport key new` makes a key and this line")
    return value.lower()


KINDS: dict[str, Kind] = {
    "size": Kind(
        "a size such as 64MiB",
        r"^[0-9]+(\.[0-9]+)? ?([kMGT]?B|[KMGT]iB)?$",
        _size,
        _shown(_SIZES),
        ("integer", "string"),
    ),
    "duration": Kind(
        "a duration such as 250ms, 30s or 10m",
        r"^[0-9]+(\.[0-9]+)? ?(us|ms|s|m|h|d)$",
        _duration,
        _shown(_DURATIONS),
    ),
    "count": Kind(
        "a whole number such as 600, 20k or 2M",
        r"^[0-9]+(\.[0-9]+)? ?[kMG]?$",
        _count,
        types=("integer", "string"),
    ),
    "text": Kind("text", r"\S", _text),
    "address": Kind("an address such as 127.0.0.1:8080", r":[0-9]+$", _address),
    "engine_url": Kind("a URL such as http://127.0.0.1:8001", "^http://", _engine_url),
    "peer": Kind("an IP address or network such as 10.0.0.0/8", r"^[0-9A-Fa-f:./]+$", _peer),
    "url_path": Kind("a path such as /health", "^/", _url_path),
    "variable": Kind("the name of an environment variable", "^[A-Za-z_][A-Za-z0-9_]*$", _variable),
    "sha256": Kind("a SHA-256 in 64 hex digits", "^[0-9A-Fa-f]{64}$", _sha256, is_secret=True),
}
"""Every kind by its name in the schema."""


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that was probably meant."""
    folded = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None
