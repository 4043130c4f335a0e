"""What a simulated engine is made of: capacities and the time that its steps take.

Theory. A step computes one chunk of prompt tokens and one token for each sequence that decodes:

- prefill of `n` new tokens that end at prompt length `L`: `n / R * (1 + (L - n/2) / C)` seconds,
  with R the rate at short context and C the length at which attention costs as much again. The sum
  over chunks does not depend on how the prompt was cut.
- decode: base (the weights are read once) + a part per sequence + a part per token of context.
- A step never takes less than its base.

Durations are whole picoseconds inside the model, so that many steps taken in one stride last
exactly as long as the same steps taken one by one.
"""

from msgspec import Struct

PICOS_PER_MICRO = 1_000_000
PICOS_PER_MILLI = 1_000_000_000
PICOS_PER_SECOND = 1_000_000_000_000


class Profile(Struct, frozen=True, kw_only=True):
    """One engine with its accelerators and its model."""

    name: str
    accelerator: str
    kv_tokens: int
    prefill_tokens_per_s: float
    """At short context."""
    step_base_ms: float
    step_per_sequence_ms: float
    step_per_million_context_ms: float
    prefill_context_tokens: int = 250_000
    """At this length a new token costs twice what it costs at the start."""
    block_tokens: int = 16
    chunk_tokens: int = 8_192
    """Prompt and output tokens that one step computes at most."""
    max_running: int = 256

    @property
    def blocks(self) -> int:
        return self.kv_tokens // self.block_tokens

    @property
    def context_tokens_max(self) -> int:
        """The longest prompt with its answer: what fits the cache when nothing else runs."""
        return self.blocks * self.block_tokens


def prefill_picos(profile: Profile, start: int, count: int) -> int:
    """The time to compute `count` prompt tokens after the first `start`."""
    attention = 1 + (start + count / 2) / profile.prefill_context_tokens
    return round(count * PICOS_PER_SECOND / profile.prefill_tokens_per_s * attention)


def decode_picos(profile: Profile, sequences: int, context: int) -> int:
    """The time of one token for each of `sequences`, which attend to `context` tokens in all."""
    base_ms = profile.step_base_ms + profile.step_per_sequence_ms * sequences
    return round(base_ms * PICOS_PER_MILLI) + context_picos(profile) * context


def context_picos(profile: Profile) -> int:
    """What one more token of context adds to a decode step."""
    return round(profile.step_per_million_context_ms * PICOS_PER_MILLI / 1_000_000)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        # 8 x H200, a mixture of experts of about 750B, bf16 KV: bound by KV. Figures of the
        # placement study, profile A.
        Profile(
            name="h200-moe",
            accelerator="8xh200",
            kv_tokens=2_000_000,
            prefill_tokens_per_s=20_000,
            step_base_ms=18,
            step_per_sequence_ms=0.15,
            step_per_million_context_ms=6,
        ),
        # The same with fp8 latent attention and attention data parallelism: bound by compute.
        # Figures of the placement study, profile B mid.
        Profile(
            name="h200-moe-fp8",
            accelerator="8xh200",
            kv_tokens=10_000_000,
            prefill_tokens_per_s=17_000,
            step_base_ms=18,
            step_per_sequence_ms=0.2,
            step_per_million_context_ms=1.5,
        ),
        # Estimate from data sheets. MI300X: 192 GB, 5.3 TB/s, 2.6 PFLOP/s dense fp8. A dense 70B in
        # fp8 is 70 GB and 140 GFLOP a token; 80 layers x 8 KV heads x 128 in bf16 are 320 KiB a
        # token. 0.9 x 192 - 70 GB of KV; prefill at 35 % of peak; reads at 70 % of peak.
        Profile(
            name="mi300x-70b",
            accelerator="mi300x",
            kv_tokens=310_000,
            prefill_tokens_per_s=6_500,
            step_base_ms=19,
            step_per_sequence_ms=0.1,
            step_per_million_context_ms=88,
        ),
        # Estimate from data sheets. 2 x A100: 160 GB, 4 TB/s, 624 TFLOP/s dense bf16. A dense 32B
        # in bf16 is 65 GB and 64 GFLOP a token; 64 layers x 8 KV heads x 128 are 256 KiB a token.
        # 0.9 x 160 - 65 GB, less activations; prefill at 50 % of peak; reads at 75 %.
        Profile(
            name="a100-32b",
            accelerator="2xa100",
            kv_tokens=280_000,
            prefill_tokens_per_s=4_900,
            step_base_ms=22,
            step_per_sequence_ms=0.1,
            step_per_million_context_ms=87,
        ),
        # Estimate from data sheets. L4: 24 GB, 300 GB/s, 121 TFLOP/s dense fp16. A dense 8B in bf16
        # is 16 GB and 16 GFLOP a token; 32 layers x 8 KV heads x 128 are 128 KiB a token.
        # 0.9 x 24 - 16 - 1 GB; prefill at 50 % of peak; reads at 85 %.
        Profile(
            name="l4-8b",
            accelerator="l4",
            kv_tokens=35_000,
            prefill_tokens_per_s=3_800,
            step_base_ms=63,
            step_per_sequence_ms=0.3,
            step_per_million_context_ms=514,
            chunk_tokens=2_048,
        ),
        # Fitted to a real vLLM on two CPU cores with a model of a few million weights. First token
        # after 0.11 s at 512 tokens, 1.8-2.4 s at 4k, 21 s at 15k; alone 120, 66 and 48 tokens/s at
        # these lengths; sixteen short ones 775 tokens/s. Cache and block as it reports them.
        Profile(
            name="cpu-tiny",
            accelerator="cpu",
            kv_tokens=262_144,
            prefill_tokens_per_s=5_900,
            prefill_context_tokens=1_100,
            step_base_ms=7,
            step_per_sequence_ms=0.85,
            step_per_million_context_ms=1_000,
            block_tokens=128,
            chunk_tokens=2_048,
            max_running=16,
        ),
        # Invented for a laptop: two kinds of hardware, turns of about 0.3 and 1 s, and caches small
        # enough that a few agents fill them.
        Profile(
            name="demo-fast",
            accelerator="fast",
            kv_tokens=120_000,
            prefill_tokens_per_s=40_000,
            step_base_ms=6,
            step_per_sequence_ms=0.1,
            step_per_million_context_ms=10,
            max_running=64,
        ),
        Profile(
            name="demo-slow",
            accelerator="slow",
            kv_tokens=60_000,
            prefill_tokens_per_s=12_000,
            step_base_ms=12,
            step_per_sequence_ms=0.3,
            step_per_million_context_ms=30,
            max_running=32,
        ),
    )
}
