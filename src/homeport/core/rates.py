"""What is learned from what happened: how fast endpoints are, how long text is in tokens, and
whether predictions of cached tokens come true.

Every mean here moves by a fixed share of the difference, with + - * / only, so that two routers
agree to the last bit. Prefill seconds of n new tokens at prompt length L are n/R * (1 + (L -
n/2)/A): attention makes late tokens dearer; form and A from the placement study, R is learned.
"""

from dataclasses import dataclass, field

from homeport.core.ids import MICROS_PER_SECOND, ModelName

ATTENTION_TOKENS = 250_000.0
"""A: prompt length at which a token costs twice what it costs in a short prompt."""
RATE_PRIOR = 10_000.0
RATE_SHARE = 0.1
STEP_PRIOR_S = 0.02
SAMPLE_TOKENS_MIN = 256
"""Prefills of fewer new tokens say more of the network than of the engine."""
TRUST_SHARE = 0.1
TRUST_TOKENS = 1_024.0
"""A prediction of so many tokens counts in full; smaller ones are mostly rounding."""
KEPT_SHARE = 0.2
BYTES_PER_TOKEN_PRIOR = 4.0


def prefill_s(new: float, prompt: float, rate: float) -> float:
    """Seconds to prefill `new` tokens at the end of a prompt of `prompt` tokens."""
    return new / rate * (1.0 + (prompt - new * 0.5) / ATTENTION_TOKENS)


@dataclass(slots=True)
class ModelRates:
    """Of one model, whatever the endpoint."""

    bytes_per_token: float = BYTES_PER_TOKEN_PRIOR
    text_seen: int = 0
    typical_tokens: float = 2_000.0
    prefill_rate: float = RATE_PRIOR
    kept_share: float = 1.0
    """How much of an answer is found in the cache when the next turn brings it back as text."""

    def learn_text(self, text_bytes: int, prompt_tokens: int) -> None:
        if prompt_tokens <= 0 or text_bytes <= 0:
            return
        self.text_seen += 1
        share = max(0.02, 1.0 / self.text_seen)
        self.bytes_per_token += share * (text_bytes / prompt_tokens - self.bytes_per_token)
        self.typical_tokens += max(0.01, share) * (prompt_tokens - self.typical_tokens)

    def learn_kept(self, share: float) -> None:
        self.kept_share += KEPT_SHARE * (min(1.0, max(0.0, share)) - self.kept_share)


@dataclass(slots=True)
class Rates:
    """Of each endpoint, in columns by slot, and of each model."""

    prefill_rate: list[float] = field(default_factory=list[float])
    step_s: list[float] = field(default_factory=list[float])
    trust: list[float] = field(default_factory=list[float])
    """Reported / predicted cached tokens where the prediction was sure, 1 at most."""
    predicted_tokens: list[int] = field(default_factory=list[int])
    reported_tokens: list[int] = field(default_factory=list[int])
    models: dict[ModelName, ModelRates] = field(default_factory=dict[ModelName, ModelRates])

    def grow(self) -> None:
        self.prefill_rate.append(0.0)
        self.step_s.append(0.0)
        self.trust.append(1.0)
        self.predicted_tokens.append(0)
        self.reported_tokens.append(0)

    def join(self, slot: int, model: ModelName) -> None:
        known = self.models.setdefault(model, ModelRates())
        self.prefill_rate[slot] = known.prefill_rate
        self.step_s[slot] = STEP_PRIOR_S
        self.trust[slot] = 1.0
        self.predicted_tokens[slot] = self.reported_tokens[slot] = 0

    def learn_prefill(
        self, slot: int, model: ModelName, new: int, prompt: int, took_us: int
    ) -> None:
        if new < SAMPLE_TOKENS_MIN or took_us <= 0:
            return
        rate = prefill_s(new, prompt, 1.0) / (took_us / MICROS_PER_SECOND)
        self.prefill_rate[slot] += RATE_SHARE * (rate - self.prefill_rate[slot])
        fleet = self.models[model]
        fleet.prefill_rate += RATE_SHARE * (rate - fleet.prefill_rate)

    def learn_step(self, slot: int, output_tokens: int, took_us: int) -> None:
        if output_tokens > 1 and took_us > 0:
            step = took_us / MICROS_PER_SECOND / (output_tokens - 1)
            self.step_s[slot] += RATE_SHARE * (step - self.step_s[slot])

    def learn_cached(self, slot: int, predicted: int, reported: int, is_sure: bool) -> None:
        self.predicted_tokens[slot] += predicted
        self.reported_tokens[slot] += reported
        if is_sure and predicted > 0:
            seen = min(1.0, reported / predicted)
            weight = TRUST_SHARE * min(1.0, predicted / TRUST_TOKENS)
            self.trust[slot] += weight * (seen - self.trust[slot])

    def state(self) -> tuple[object, ...]:
        models = [
            (
                name,
                m.bytes_per_token,
                m.text_seen,
                m.typical_tokens,
                m.prefill_rate,
                m.kept_share,
            )
            for name, m in self.models.items()
        ]
        return (
            self.prefill_rate,
            self.step_s,
            self.trust,
            self.predicted_tokens,
            self.reported_tokens,
            models,
        )
