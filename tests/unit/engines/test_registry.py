import pytest

from homeport.engines import UnknownDialect, dialect


def test_a_dialect_is_found_by_its_name() -> None:
    assert dialect("vllm").name == "vllm"
    assert dialect("openai").metrics_path is None


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownDialect, match=r"found 'vlm'; did you mean 'vllm'\?"):
        dialect("vlm")
    with pytest.raises(UnknownDialect, match=r"expected a dialect \(vllm, openai\), found 'xyz'$"):
        dialect("xyz")
