"""vLLM, as of 0.32. Data-parallel ranks appear as the label `engine` of every sample."""

from collections.abc import Sequence
from math import fsum, isfinite

from msgspec import Struct

from homeport.core.ids import Tokens
from homeport.engines.adapter import STREAMS_WITHOUT_USAGE, EngineReading, Verdict, verdict_of
from homeport.wire import prometheus
from homeport.wire.prometheus import Sample

RUNNING = b"vllm:num_requests_running"
WAITING = b"vllm:num_requests_waiting"
KV_USAGE = b"vllm:kv_cache_usage_perc"
CACHE_CONFIG = b"vllm:cache_config_info"
PREFIX_HITS = b"vllm:prefix_cache_hits_total"
PREFIX_QUERIES = b"vllm:prefix_cache_queries_total"
PREEMPTIONS = b"vllm:num_preemptions_total"
NAMES = (RUNNING, WAITING, KV_USAGE, CACHE_CONFIG, PREFIX_HITS, PREFIX_QUERIES, PREEMPTIONS)


class Vllm(Struct, frozen=True, gc=False):
    """Prefix hits and queries count tokens. `/health` is 200 with an empty body."""

    name: str = "vllm"
    health_path: str = "/health"
    metrics_path: str | None = "/metrics"

    def read_metrics(self, text: bytes) -> EngineReading:
        samples = prometheus.read(text, NAMES)
        return EngineReading(
            running=_total(samples[RUNNING]),
            waiting=_total(samples[WAITING]),
            kv_usage=_mean_share(samples[KV_USAGE]),
            kv_tokens=_kv_tokens(samples[CACHE_CONFIG]),
            block_tokens=_block_tokens(samples[CACHE_CONFIG]),
            prefix_hits=_tokens(_total(samples[PREFIX_HITS])),
            prefix_queries=_tokens(_total(samples[PREFIX_QUERIES])),
            preemptions=_total(samples[PREEMPTIONS]),
        )

    def verdict(self, status: int) -> Verdict:
        return verdict_of(status)

    def must_ask_usage(self, path: str) -> bool:
        """`--enable-force-include-usage` sends it unasked, but an engine does not say so."""
        return path in STREAMS_WITHOUT_USAGE


def _total(samples: Sequence[Sample]) -> int | None:
    values = [sample.value for sample in samples if isfinite(sample.value) and sample.value >= 0]
    return int(sum(values)) if values else None


def _mean_share(samples: Sequence[Sample]) -> float | None:
    """Ranks have caches of one size each, so the mean is the share of the whole."""
    values = [min(1.0, max(0.0, sample.value)) for sample in samples if isfinite(sample.value)]
    return fsum(values) / len(values) if values else None


def _kv_tokens(configs: Sequence[Sample]) -> Tokens | None:
    capacities = [_capacity(config) for config in configs]
    known = [capacity for capacity in capacities if capacity is not None]
    return Tokens(sum(known)) if known else None


def _capacity(config: Sample) -> int | None:
    """The engine's own figure; blocks by block size is the same where all layers attend alike.

    In models that mix attention with state-space layers the product is too small by far.
    """
    if (told := _number(config, b"kv_cache_size_tokens")) is not None:
        return told
    block, blocks = _number(config, b"block_size"), _number(config, b"num_gpu_blocks")
    return None if block is None or blocks is None else block * blocks


def _block_tokens(configs: Sequence[Sample]) -> Tokens | None:
    return _tokens(_number(configs[0], b"block_size")) if configs else None


def _number(config: Sample, name: bytes) -> int | None:
    """A label with a positive number; engines write `None` where they have not decided."""
    text = config.label(name)
    number = int(text) if text is not None and text.isdigit() and len(text) < 16 else 0
    return number or None


def _tokens(count: int | None) -> Tokens | None:
    return None if count is None else Tokens(count)
