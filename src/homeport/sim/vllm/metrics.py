"""The page that vLLM shows to Prometheus: the figures that routers read."""

from homeport.sim.job import Stats
from homeport.sim.profile import Profile


def metrics_page(model: str, profile: Profile, stats: Stats, held: int) -> bytes:
    """`held`: requests in the server's hands that the model does not know of."""
    label = model.replace("\\", "\\\\").replace('"', '\\"')
    own = f'engine="0",model_name="{label}"'
    rows = [
        family("num_requests_running", "gauge", "Requests being computed.")
        + [sample("num_requests_running", own, stats.running + held)],
        family("num_requests_waiting", "gauge", "Requests in the queue.")
        + [sample("num_requests_waiting", own, stats.waiting)],
        family("kv_cache_usage_perc", "gauge", "Share of the cache in use; 1 is all of it.")
        + [sample("kv_cache_usage_perc", own, stats.kv_usage)],
        family("prefix_cache_queries_total", "counter", "Prompt tokens looked up.")
        + [sample("prefix_cache_queries_total", own, stats.prefix_queries)],
        family("prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.")
        + [sample("prefix_cache_hits_total", own, stats.prefix_hits)],
        family("num_preemptions_total", "counter", "Preemptions since the start.")
        + [sample("num_preemptions_total", own, stats.preemptions)],
        family("prompt_tokens_total", "counter", "Prompt tokens processed.")
        + [sample("prompt_tokens_total", own, stats.prompt_tokens)],
        family("generation_tokens_total", "counter", "Tokens generated.")
        + [sample("generation_tokens_total", own, stats.output_tokens)],
        finished_rows(label, stats),
        cache_rows(profile),
    ]
    return ("\n".join(line for lines in rows for line in lines) + "\n").encode()


def family(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP vllm:{name} {told}", f"# TYPE vllm:{name} {kind}"]


def sample(name: str, labels: str, value: float) -> str:
    return f"vllm:{name}{{{labels}}} {float(value)}"


def finished_rows(label: str, stats: Stats) -> list[str]:
    counts = {"stop": stats.stopped, "length": stats.cut, "abort": stats.aborted, "error": 0}
    name = "request_success_total"
    return family(name, "counter", "Requests that ended, by reason.") + [
        sample(name, f'engine="0",finished_reason="{reason}",model_name="{label}"', count)
        for reason, count in counts.items()
    ]


def cache_rows(profile: Profile) -> list[str]:
    labels = (
        f'block_size="{profile.block_tokens}",cache_dtype="auto",enable_prefix_caching="True",'
        f'engine="0",gpu_memory_utilization="0.92",'
        f'kv_cache_size_tokens="{profile.context_tokens_max}",num_cpu_blocks="None",'
        f'num_gpu_blocks="{profile.blocks}",prefix_caching_hash_algo="sha256"'
    )
    name = "cache_config_info"
    return family(name, "gauge", "How the cache is set up.") + [sample(name, labels, 1)]
