"""Any server that speaks OpenAI's API and tells nothing of itself."""

from msgspec import Struct

from homeport.engines.adapter import STREAMS_WITHOUT_USAGE, EngineReading, Verdict, verdict_of


class OpenAI(Struct, frozen=True, gc=False):
    """Health by the model list, which every such server has; no metrics."""

    name: str = "openai"
    health_path: str = "/v1/models"
    metrics_path: str | None = None

    def read_metrics(self, text: bytes) -> EngineReading:
        return EngineReading()

    def verdict(self, status: int) -> Verdict:
        return verdict_of(status)

    def must_ask_usage(self, path: str) -> bool:
        return path in STREAMS_WITHOUT_USAGE
