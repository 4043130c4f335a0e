from homeport.core.endpoint import Sample
from homeport.core.ids import Tokens
from homeport.engines import EngineReading
from homeport.engines.vllm import Vllm

PAGE = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 4.0
vllm:num_requests_waiting{engine="1",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1.5e+06
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 20.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 1.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1.0
"""


def test_ranks_are_one_engine() -> None:
    assert Vllm().read_metrics(PAGE) == EngineReading(
        running=5,
        waiting=4,
        kv_usage=0.375,
        kv_tokens=Tokens(3200),
        block_tokens=Tokens(16),
        prefix_hits=Tokens(20),
        prefix_queries=Tokens(1_500_000),
        preemptions=1,
    )


def test_decisions_get_the_part_they_use() -> None:
    sample = Vllm().read_metrics(PAGE).sample()
    assert sample == Sample(5, 4, 0.375, Tokens(3200), Tokens(16))


def test_the_engines_own_word_on_its_capacity_counts_more_than_the_product() -> None:
    page = (
        b'vllm:cache_config_info{block_size="8",kv_cache_size_tokens="463459",'
        b'num_gpu_blocks="320"} 1.0\n'
    )
    assert Vllm().read_metrics(page).kv_tokens == 463_459


def test_a_capacity_that_is_not_decided_is_not_known() -> None:
    page = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n'
    reading = Vllm().read_metrics(page)
    assert (reading.kv_tokens, reading.block_tokens) == (None, 16)


def test_values_that_cannot_be_are_not_read() -> None:
    page = (
        b"vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\n"
        b"vllm:num_preemptions_total -1\nvllm:kv_cache_usage_perc 1.01\n"
    )
    assert Vllm().read_metrics(page) == EngineReading(kv_usage=1.0)
