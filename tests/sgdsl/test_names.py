"""The names, arguments and defaults that programs for SGLang's frontend rely on."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl

NAMES = """
function gen gen_int gen_string select image video system user assistant system_begin system_end
user_begin user_end assistant_begin assistant_end separate_reasoning set_default_backend flush_cache
get_server_info Runtime RuntimeEndpoint Engine OpenAI Anthropic LiteLLM token_length_normalized
greedy_token_selection unconditional_likelihood_normalized REGEX_INT REGEX_FLOAT REGEX_BOOL
REGEX_STR ChatTemplate register_chat_template get_chat_template ProgramState VertexAI ServerArgs
"""
GEN = """
name max_tokens min_tokens n stop stop_token_ids stop_regex temperature top_p top_k min_p
frequency_penalty presence_penalty ignore_eos return_logprob logprob_start_len top_logprobs_num
return_text_in_logprobs dtype choices choices_method regex json_schema
"""
RUN = """
max_new_tokens n stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty
presence_penalty ignore_eos return_logprob logprob_start_len top_logprobs_num
return_text_in_logprobs stream backend use_thread
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_is_there_and_public(name: str) -> None:
    assert name in sgl.__all__
    assert getattr(sgl, name) is not None


def test_what_there_is_not_says_what_to_take_instead() -> None:
    with pytest.raises(sgl.UsageError, match=r"take LiteLLM\('vertex_ai/gemini-2.0-flash'\)"):
        sgl.VertexAI("gemini-2.0-flash")
    with pytest.raises(sgl.UsageError, match="give them to Runtime"):
        sgl.ServerArgs(model_path="m")


def positional(call: Any) -> dict[str, Any]:
    parameters = inspect.signature(call).parameters.values()
    return {
        each.name: each.default for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD
    }


def test_positional_orders_and_defaults_are_those_of_sglang() -> None:
    assert positional(sgl.gen) == dict.fromkeys(GEN.split())
    assert positional(sgl.select) == {
        "name": None,
        "choices": None,
        "temperature": 0.0,
        "choices_method": sgl.token_length_normalized,
    }
    assert positional(sgl.function) == {"func": None, "num_api_spec_tokens": None}
    assert positional(sgl.separate_reasoning) == {"expr": None, "model_type": None}
    state = sgl.ProgramState
    assert positional(state.fork)["size"] == 1
    assert positional(state.text_iter)["var_name"] is None
    assert list(positional(state.text_async_iter))[1:] == ["var_name", "return_meta_data"]
    assert list(positional(sgl.RuntimeEndpoint)) == ["base_url", "api_key", "verify"]
    for backend in (sgl.OpenAI, sgl.Anthropic, sgl.LiteLLM):
        assert next(iter(positional(backend))) == "model_name"


def test_runs_and_batches_take_every_sampling_argument() -> None:
    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "a" + sgl.gen("x")

    assert set(RUN.split()) <= inspect.signature(program.run).parameters.keys()
    sampling: dict[str, Any] = dict.fromkeys(RUN.split())
    del sampling["stream"], sampling["use_thread"]
    sampling["backend"] = sgl.MockBackend()
    assert program.run(**sampling, use_thread=True, stream=False)["x"] == "mock"
    states = program.run_batch([{}], **sampling, num_threads="auto", progress_bar=False)
    assert states[0]["x"] == "mock"
    assert str(program.trace(backend=sampling["backend"])).endswith("%1 gen x")


def test_a_batch_s_backend_need_not_keep_a_cache() -> None:
    with sgl.OpenAI(model_name="m", base_url="http://localhost:1/v1") as backend:
        assert sgl.flush_cache(backend) is None
        assert sgl.get_server_info(backend)["max_in_flight"] == 64


def test_a_runtime_is_opened_and_shut_down_as_in_sglang(tiny_llama_path: Path) -> None:
    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "the license" + sgl.gen("x", 4)

    runtime = sgl.Runtime(model_path=str(tiny_llama_path), kv_bytes=1 << 22)
    sgl.set_default_backend(runtime)
    try:
        assert program.run().outcome is not None
    finally:
        sgl.set_default_backend(None)
        runtime.shutdown()
    state = program.run(backend=runtime)
    assert "closed" in str(state.error())
    with pytest.raises(sgl.UsageError, match="model_path='b' are the same argument"):
        sgl.Engine("a", model_path="b")
    with pytest.raises(sgl.UsageError, match="'tp_size' is not an option of the runtime"):
        sgl.Runtime(model_path=str(tiny_llama_path), tp_size=2)
