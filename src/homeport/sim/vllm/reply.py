"""An answer on its way: tokens in, events or one body out, shaped like vLLM's.

The first token of a choice makes two events, one with the role alone. The last one carries the
reason for the end. Then, where asked for, comes usage with no choices, and the mark of the end.
"""

import msgspec
import xxhash

from homeport.sim import text
from homeport.sim.job import Finish, Output
from homeport.sim.vllm.ask import Answer, Ask

DONE = b"data: [DONE]\n\n"
FINGERPRINT = "vllm-0.32.0-51b0517e"
NULL = b"null"


class Reply:
    """One HTTP answer; each choice speaks at its own pace."""

    def __init__(self, ask: Ask, request_id: str, created: int, block_tokens: int) -> None:
        self.ask = ask
        self.id = f"chatcmpl-{request_id}" if ask.is_chat else f"cmpl-{request_id}"
        self.created = created
        self.block_tokens = block_tokens
        self.said = [0] * len(ask.answers)
        self.cached = [0] * len(ask.answers)
        self.open = len(ask.answers)
        self.event_head = b'data: {"id":%b,"object":"%b","created":%d,"model":%b,"choices":[' % (
            msgspec.json.encode(self.id),
            b"chat.completion.chunk" if ask.is_chat else b"text_completion",
            created,
            msgspec.json.encode(ask.model),
        )

    @property
    def is_done(self) -> bool:
        return self.open == 0

    @property
    def output_tokens(self) -> int:
        return sum(self.said)

    def heard(self, index: int, output: Output) -> list[bytes]:
        """Take in what the engine made for a choice; the events to send when streaming."""
        first = self.said[index]
        self.said[index] += output.tokens
        if output.is_first:
            self.cached[index] = output.cached_tokens
        if output.finish is not None:
            self.open -= 1
        if not self.ask.is_stream:
            return []
        events = self.opening(index) if output.is_first and self.ask.is_chat else []
        events += self.spoken(index, first, output.finish)
        if self.is_done:
            events += self.closing()
        return events

    def opening(self, index: int) -> list[bytes]:
        ids = b"null"
        return [
            b'%b{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,'
            b'"finish_reason":null}]%b,"prompt_token_ids":%b,"prompt_text":null}\n\n'
            % (self.event_head, index, self.running_usage(0), ids)
        ]

    def spoken(self, index: int, first: int, finish: Finish | None) -> list[bytes]:
        answer = self.ask.answers[index]
        shown = answer.shown(first, self.said[index])
        if self.ask.is_chat:
            deltas = self.tool_deltas(index, first, shown) if answer.tool else text_delta(shown)
            if answer.tool and finish is not None:
                deltas.append(b'{"content":""}')
            *early, last = deltas or [b'{"content":""}']
        else:
            early, last = list[bytes](), msgspec.json.encode(shown.decode())
        events = [self.event(index, first, delta, None) for delta in early]
        if deltas_missing(answer, shown, finish, first):
            return events
        events.append(self.event(index, first, last, finish))
        return events

    def event(self, index: int, first: int, said: bytes, finish: Finish | None) -> bytes:
        answer = self.ask.answers[index]
        reason = b"null" if finish is None else b'"%b"' % finish_reason(answer, finish)
        last = self.said[index]
        if self.ask.is_chat:
            stop = b',"stop_reason":null' if finish is not None else b""
            form = (
                b'%b{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b%b,'
                b'"token_ids":%b}]%b}\n\n'
            )
            return form % (
                self.event_head,
                index,
                said,
                self.logprobs(answer, first, last),
                reason,
                stop,
                self.token_ids(answer, first, last),
                self.running_usage(self.output_tokens),
            )
        form = (
            b'%b{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b,"stop_reason":null,'
            b'"prompt_token_ids":null,"token_ids":%b}]%b}\n\n'
        )
        return form % (
            self.event_head,
            index,
            said,
            self.logprobs(answer, first, last),
            reason,
            self.token_ids(answer, first, last),
            self.running_usage(self.output_tokens),
        )

    def tool_deltas(self, index: int, first: int, shown: bytes) -> list[bytes]:
        answer = self.ask.answers[index]
        deltas: list[bytes] = []
        if first == 0:
            call = {
                "id": self.call_id(index),
                "type": "function",
                "index": 0,
                "function": {"name": answer.tool, "arguments": ""},
            }
            deltas.append(msgspec.json.encode({"tool_calls": [call]}))
        if shown:
            part = {"index": 0, "function": {"arguments": shown.decode()}}
            deltas.append(msgspec.json.encode({"tool_calls": [part]}))
        return deltas

    def closing(self) -> list[bytes]:
        if not self.ask.options.include_usage:
            return [DONE]
        usage = msgspec.json.encode(self.usage(is_whole=False))
        fingerprint = FINGERPRINT.encode()
        form = b'%b],"usage":%b,"system_fingerprint":"%b"}\n\n'
        return [form % (self.event_head, usage, fingerprint), DONE]

    def body(self) -> bytes:
        """The whole answer as one object."""
        choices = [
            self.chat_choice(i) if self.ask.is_chat else self.text_choice(i)
            for i in range(len(self.ask.answers))
        ]
        whole: dict[str, object] = {
            "id": self.id,
            "object": "chat.completion" if self.ask.is_chat else "text_completion",
            "created": self.created,
            "model": self.ask.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self.usage(is_whole=True),
        }
        if self.ask.is_chat:
            whole |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
        return msgspec.json.encode(whole | {"kv_transfer_params": None})

    def chat_choice(self, index: int) -> dict[str, object]:
        answer = self.ask.answers[index]
        shown = answer.shown(0, answer.count).decode()
        message: dict[str, object] = {
            "role": "assistant",
            "content": None if answer.tool else shown,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        if answer.tool:
            function = {"name": answer.tool, "arguments": shown}
            call = {"id": self.call_id(index), "type": "function", "function": function}
            message["tool_calls"] = [call]
        return {
            "index": index,
            "message": message,
            **self.choice_end(answer),
            "routed_experts": None,
        }

    def text_choice(self, index: int) -> dict[str, object]:
        answer = self.ask.answers[index]
        shown = answer.shown(0, answer.count).decode()
        return {
            "index": index,
            "text": shown,
            **self.choice_end(answer),
            "prompt_logprobs": None,
            "prompt_token_ids": None,
        }

    def choice_end(self, answer: Answer) -> dict[str, object]:
        return {
            "logprobs": msgspec.Raw(self.logprobs(answer, 0, answer.count)),
            "finish_reason": finish_reason(answer, answer.finish).decode(),
            "stop_reason": None,
            "token_ids": msgspec.Raw(self.token_ids(answer, 0, answer.count)),
        }

    def usage(self, *, is_whole: bool) -> dict[str, object]:
        prompt, output = self.ask.prompt_tokens, self.output_tokens
        details: dict[str, object] = {"cached_tokens": self.cached[0]}
        if self.ask.is_chat:
            details["created_cache_tokens"] = self.created_cache_tokens()
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + output,
            "completion_tokens": output,
            "prompt_tokens_details": details,
        }
        if is_whole and self.ask.is_chat:
            details["multimodal_tokens"] = None
            usage["completion_tokens_details"] = None
        return usage

    def created_cache_tokens(self) -> int:
        """Prompt tokens in full blocks that were not there before."""
        prompt = self.ask.answers[0].prompt_tokens
        return max(0, prompt - prompt % self.block_tokens - self.cached[0])

    def running_usage(self, output: int) -> bytes:
        if not self.ask.options.continuous_usage_stats:
            return b""
        prompt = self.ask.prompt_tokens
        details = b',"completion_tokens_details":null' if self.ask.is_chat else b""
        form = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d%b}'
        return form % (prompt, prompt + output, output, details)

    def token_ids(self, answer: Answer, first: int, last: int) -> bytes:
        if not self.ask.has_token_ids:
            return NULL
        return msgspec.json.encode(text.token_ids(token_bytes(answer, first, last)))

    def logprobs(self, answer: Answer, first: int, last: int) -> bytes:
        count = self.ask.top_logprobs
        if count is None:
            return NULL
        tokens = [token_bytes(answer, at, at + 1) for at in range(first, last)]
        if self.ask.is_chat:
            entries = [chat_logprob(token, count) for token in tokens]
            return msgspec.json.encode({"content": entries})
        return msgspec.json.encode(text_logprobs(tokens, first, count))

    def call_id(self, index: int) -> str:
        return f"chatcmpl-tool-{xxhash.xxh3_64_hexdigest(self.id.encode(), index)}"


def text_delta(shown: bytes) -> list[bytes]:
    return [b'{"content":%b}' % msgspec.json.encode(shown.decode())]


def deltas_missing(answer: Answer, shown: bytes, finish: Finish | None, first: int) -> bool:
    """A token that shows nothing makes no event, unless it is the first or the last."""
    return finish is None and not shown and first > 0


def finish_reason(answer: Answer, finish: Finish) -> bytes:
    if answer.tool and finish is Finish.STOP:
        return b"tool_calls"
    return finish.value.encode()


def token_bytes(answer: Answer, first: int, last: int) -> bytes:
    return answer.tokens[first * text.TOKEN_BYTES : last * text.TOKEN_BYTES]


def chat_logprob(token: bytes, count: int) -> dict[str, object]:
    best = [entry(word, rank) for rank, word in enumerate(text.alternatives(token, count))]
    return {**entry(token, 0), "top_logprobs": best}


def entry(word: bytes, rank: int) -> dict[str, object]:
    return {
        "token": word.decode(errors="replace"),
        "logprob": text.logprob(word, rank),
        "bytes": list(word),
    }


def text_logprobs(tokens: list[bytes], first: int, count: int) -> dict[str, object]:
    best = [
        {w.decode(errors="replace"): text.logprob(w, rank) for rank, w in enumerate(words)}
        for words in (text.alternatives(token, max(1, count)) for token in tokens)
    ]
    return {
        "text_offset": [(first + at) * text.TOKEN_BYTES for at in range(len(tokens))],
        "token_logprobs": [text.logprob(token, 0) for token in tokens],
        "tokens": [token.decode(errors="replace") for token in tokens],
        "top_logprobs": best,
    }
