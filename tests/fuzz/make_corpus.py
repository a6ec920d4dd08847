#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets to tests/fuzz/corpus. Inputs that found something are
kept beside them under names of their own."""
import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent
SOURCE = ROOT.parent.parent


def write(target, name, data):
    folder = ROOT / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def safetensors(header, n_bytes):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(n_bytes)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


write("safetensors", "two", safetensors(
    {"__metadata__": {"format": "pt"}, "a": tensor("BF16", [2, 3], 0, 12),
     "b": tensor("F32", [1], 12, 16)}, 16))
write("safetensors", "scalar", safetensors({"s": tensor("I64", [], 0, 8)}, 8))
write("safetensors", "empty", safetensors({"e": tensor("U8", [0], 0, 0)}, 0))
write("safetensors", "overlap", safetensors(
    {"a": tensor("I32", [2], 0, 8), "b": tensor("I32", [2], 4, 12)}, 12))

model = SOURCE / "examples/models/nano-k2"
write("config", "target", (model / "config.json").read_bytes())
write("config", "drafter", (model / "drafter/config.json").read_bytes())

write("deployment", "small", '{"checkpoint": "."}')
write("deployment", "all", json.dumps({
    "checkpoint": "a", "drafter": "b", "backend": "cpu", "threads": 3, "context_limit": 4096,
    "prefill_chunk": 64, "kv": {"type": "fp8", "capacity_tokens": 9000, "page_tokens": 64},
    "speculation": {"max_nodes": 16, "sessions": 2},
    "numeric": {"qk_latent_norm_eps": 1e-6, "rope_attention_factor": 1.5}, "ranks": 4,
    "placement": {"attention": "context", "experts": "groups", "expert_groups": 2, "q_a": "split",
                  "expert_replicas": 3, "expert_counts": "c.json"}, "link_gb_per_s": 28.5}))
# flatc --binary of {"checkpoint": "."}
write("deployment", "binary", bytes.fromhex(
    "100000004b494d440000060008000400060000000400000001000000 2e000000"))

write("tokenizer", "bytes", b"\0YWI= 256\nYWJj 257\n\nabc abcab <|im_end|> \xc3\xa9")
write("tokenizer", "wrong", b"\1YQ== 0\nYg== 1\n\nab")
write("tokenizer", "scripts",
      "\0\n\nHello, it's 12345 \u4f60\u597d \u00e9t\u00e9 \U0001f600\r\n\t  x")

chat = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Hi <|im_end|>"}]},
        {"role": "assistant", "content": None, "reasoning_content": "hm",
         "tool_calls": [{"id": "functions.f:0", "type": "function",
                         "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "2"}],
    "tools": [{"type": "function", "function": {
        "name": "f", "description": "d", "parameters": {
            "type": "object", "required": ["a"], "properties": {
                "a": {"type": "integer", "minimum": 0, "description": "an a"},
                "b": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/c"}]},
                "e": {"enum": ["x", 1, None]}},
            "$defs": {"c": {"type": "array", "items": {"type": "number"}}}}}}],
    "thinking": False, "preserve_thinking": True, "add_generation_prompt": True}
write("chat", "all", json.dumps(chat))
write("chat", "plain", '{"messages": [{"role": "user", "content": "hi"}]}')
write("chat", "image", json.dumps({"messages": [{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "?"}]}]}))

schema = chat["tools"][0]["function"]["parameters"]
write("constraint", "schema", b"\0\0" + json.dumps(schema).encode())
write("constraint", "string", b"\0\1" + json.dumps(
    {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-c]+"}).encode())
write("constraint", "number", b"\0\2" + json.dumps(
    {"type": "array", "prefixItems": [{"type": "number", "minimum": -1.5, "exclusiveMaximum": 20}],
     "minItems": 1, "maxItems": 3, "items": {"const": "k"}}).encode())
write("constraint", "regex", b"\1\0" + rb"(?:ab|[^c-e\d]{2,4}?)*\u00e9\x41$")
write("constraint", "tools", b"\2\1" + json.dumps(chat["tools"]).encode())


def state(flags, rules, tokens, n_cached=0, reply_begin=0, phase=2, finish=0, drafts=0,
          temperature=1.0, budget=0xFFFFFFFF):
    data = json.dumps(rules + [["f"]]).encode()  # with a tool
    options = struct.pack("<Q3f7I", 7, temperature, 0.95, 0.0, 0, 0, budget, 0, 1, 0, 0)
    fields = struct.pack("<5Q5IiQ", len(data), len(data), len(tokens), n_cached, reply_begin, drafts,
                         0, 0, phase, finish, 0, 0)
    return bytes([flags]) + 2 * options + fields + 2 * data + struct.pack(f"<{len(tokens)}i", *tokens)


write("state", "idle", state(4, [[], [], []], [1, 2, 3], 3))
write("state", "prompt", state(4, [[], [120, 5.0], ["stop"]], list(range(70)), 64, 70, 0))
write("state", "reply", state(5, [[1, "[a-z]+"], [], []], [97] * 80, 79, 70, 1, drafts=1))
write("state", "empty", state(4, [[], [], []], []))
# What no session can be.
write("state", "nothing-to-compute", state(4, [[], [], []], [1] * 64, 64, 64, 0))
write("state", "empty-prompt", state(4, [[], [], []], [], phase=0))
write("state", "empty-reply", state(4, [[], [], []], [1] * 9, 0, 9, 1))
write("state", "cold-and-greedy", state(4, [[], [], []], [1] * 9, 0, 9, 0, temperature=float("nan")))
write("state", "large-budget", state(4, [[], [], []], [1] * 9, 0, 8, 1, budget=1000))
write("state", "large-bias", state(4, [[], [1, 1e308], []], [1] * 9, 0, 9, 0))
write("state", "empty-stop", state(4, [[], [], [""]], [1] * 9, 0, 9, 0))

write("api", "reply", bytes([0, 1, 5, 64, 255, 0, 0, 8, 0, 1, 0, 1, 0, 50, 7, 2, 0, 2, 0, 3, 0, 4, 1]))
write("api", "fork", bytes([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80, 3, 2, 0, 2, 0, 2, 0, 6] +
                           [0] * 9 + [0, 0, 1, 3, 1, 7, 1, 1, 2, 14, 5, 1, 70, 13, 0]))
write("api", "rules", bytes([0, 2, 9, 64, 255, 0, 0, 4, 0, 1, 1, 9, 2, 0, 1, 10, 1, 200, 9, 1, 2, 11, 2,
                             97, 98, 2, 1, 15, 3, 104, 105, 33, 1, 2, 1, 2, 1, 12, 1, 2, 1]))
