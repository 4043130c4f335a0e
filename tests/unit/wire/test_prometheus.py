from math import inf, isnan

import pytest

from homeport.wire.prometheus import Sample, read


def values(text: bytes, name: bytes = b"up") -> list[float]:
    return [sample.value for sample in read(text, [name])[name]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"up 1\n", [1.0]),
        (b"up 1", [1.0]),
        (b"up 1\r\nup 2\r\n", [1.0, 2.0]),
        (b"x 1\nup\t 1.5e+03 1700000000000\n", [1500.0]),
        (b'up{a="b"} 2\n', [2.0]),
        (b'up {a="b"}2\n', [2.0]),
        (b'up{a="b"} 2 # {trace="x}"} 9\n', [2.0]),
        (b"up{} 2\n", [2.0]),
        (b'up{a="}"} 2\n', [2.0]),
        (b'up{a="\\"}"} 2\n', [2.0]),
        (b"up +Inf\nup -Inf\n", [inf, -inf]),
        (b"# HELP up up 3\n# TYPE up gauge\nup 1\n", [1.0]),
        (b"up_total 3\nup 1\nupper 4\n", [1.0]),
        (b'up_total{a="b"} 3\n', []),
        (b"startup 3\n", []),
        (b"up\n", []),
        (b"up x\nup 1\n", [1.0]),
        (b'up{a="b" 1\nup 2\n', [2.0]),
        (b'up{a="b 1\nup 2\n', [2.0]),
        (b"", []),
    ],
)
def test_a_page_has(text: bytes, expected: list[float]) -> None:
    assert values(text) == expected


def test_not_a_number_is_a_value() -> None:
    (value,) = values(b"up NaN\n")
    assert isnan(value)


def test_every_name_asked_for_is_answered() -> None:
    assert read(b"a 1\n", [b"a", b"b"]) == {b"a": [Sample(b"", 1.0)], b"b": []}


def test_labels_are_read_one_by_one() -> None:
    (sample,) = read(b'up{a="x,b=", b="1" ,c="q\\"\\\\\\n",} 1\n', [b"up"])[b"up"]
    assert sample.label(b"a") == b"x,b="
    assert sample.label(b"b") == b"1"
    assert sample.label(b"c") == b'q"\\\n'
    assert sample.label(b"d") is None


def test_labels_that_are_not_labels_end_the_search() -> None:
    assert Sample(b'a="1",!! b="2"', 1.0).label(b"b") is None
    assert Sample(b"x" * 100_000, 1.0).label(b"x") is None
