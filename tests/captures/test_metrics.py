"""Metrics pages of real engines."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from homeport.core.ids import Tokens
from homeport.engines import EngineReading, dialect
from homeport.engines.vllm import NAMES
from homeport.wire.prometheus import read


def test_vllm(captures: Path) -> None:
    page = (captures / "vllm_metrics.txt").read_bytes()
    assert dialect("vllm").read_metrics(page) == EngineReading(
        running=0,
        waiting=0,
        kv_usage=0.0,
        kv_tokens=Tokens(262_144),
        block_tokens=Tokens(128),
        prefix_hits=Tokens(20_224),
        prefix_queries=Tokens(42_062),
        preemptions=0,
    )


def test_a_page_of_another_engine_says_nothing(captures: Path) -> None:
    page = (captures / "sglang_metrics.txt").read_bytes()
    assert dialect("vllm").read_metrics(page) == EngineReading()


def test_search_finds_what_the_full_parser_finds(captures: Path) -> None:
    for name in ("vllm_metrics.txt", "sglang_metrics.txt"):
        page = (captures / name).read_bytes()
        families = text_string_to_metric_families(page.decode())
        samples = [sample for family in families for sample in family.samples]
        names = sorted({sample.name.encode() for sample in samples})
        assert set(NAMES) <= set(names) or name != "vllm_metrics.txt"
        found = read(page, names)
        assert sum(map(len, found.values())) == len(samples)
        for key in names:
            expected = [sample for sample in samples if sample.name == key.decode()]
            for ours, theirs in zip(found[key], expected, strict=True):
                assert repr(ours.value) == repr(float(theirs.value))  # NaN is not equal to itself
                labels = {label: ours.label(label.encode()) for label in theirs.labels}
                assert labels == {label: text.encode() for label, text in theirs.labels.items()}
