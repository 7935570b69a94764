"""Measures a training step of GPT-2 124M (the model of training_step.py) in PyTorch on a GPU, with bf16 autocast,
torch.compile and fused AdamW.

    device_step.py [--attention flash|cudnn] [--classes 50257|50304] [--sequences N] [--tokens N] [--rounds N]
                   [--json FILE]

--classes: the number of rows of the embedding, which is also the head; 50304 is a multiple of 128. Prints the median
time of a step, tokens/s, and the model's FLOP/s by the formula of bench/cuda: per token, 6 x parameters, plus 6 x
layers x width x context for causal attention. Also prints the time and FLOP/s of one call to
scaled_dot_product_attention, forward and backward, with the same backend. --on-cpu: trains a tiny model on the CPU, to
test this program; its times are marked as not measured."""

import argparse
import json
import statistics
import sys
import time

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from training_step import GPT2

backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}


def seconds_of(device, rounds, f):
    """The seconds that each of `rounds` calls of f takes, on the device's own clock."""
    if device == "cpu":
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            f()
            times.append(time.perf_counter() - began)
        return times
    events = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    events[0].record()
    for event in events[1:]:
        f()
        event.record()
    torch.cuda.synchronize()
    return [1e-3 * begin.elapsed_time(end) for begin, end in zip(events, events[1:])]


def attention_alone(device, backend, sequences, heads, tokens, features, rounds):
    q, k, v = (
        torch.randn(sequences, heads, tokens, features, device=device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    dy = torch.randn_like(q)

    def run():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dy)
        q.grad = k.grad = v.grad = None

    for _ in range(3):
        run()
    return statistics.median(seconds_of(device, rounds, run))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--attention", choices=("flash", "cudnn"), default="flash")
    arguments.add_argument("--classes", type=int, default=50257)
    arguments.add_argument("--sequences", type=int, default=32)
    arguments.add_argument("--tokens", type=int, default=1024)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--json")
    arguments.add_argument("--on-cpu", action="store_true")
    a = arguments.parse_args()
    device = "cpu" if a.on_cpu else "cuda"
    backend = backends["math" if a.on_cpu else a.attention]
    layers, heads, width = (2, 2, 16) if a.on_cpu else (12, 12, 768)

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = GPT2(layers=layers, heads=heads, width=width, vocabulary=a.classes, context=a.tokens).to(device)
    # As in ConsTrain's benchmark, all token ids are below 50257, even if the embedding has padding rows.
    tokens, labels = (torch.randint(min(50257, a.classes), (a.sequences, a.tokens), device=device) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1, fused=True)

    def loss_of(tokens, labels):
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))

    compiled = torch.compile(loss_of)
    last = None

    def step():
        nonlocal last
        with sdpa_kernel(backend):
            last = compiled(tokens, labels)
        last.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    began = time.perf_counter()
    for _ in range(3):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    warm_up = time.perf_counter() - began
    times = seconds_of(device, a.rounds, step)
    if not torch.isfinite(last):
        sys.exit("device_step.py: the loss is not finite; choose another --attention, or check PyTorch")
    seconds = statistics.median(times)
    alone = attention_alone(device, backend, a.sequences, heads, a.tokens, width // heads, a.rounds)

    parameters = sum(p.numel() for p in model.parameters())
    flops = (6 * parameters + 6 * layers * width * a.tokens) * a.sequences * a.tokens
    # Two matmuls forward and five backward; causal attention needs half of each.
    attention_flops = 7 * a.sequences * heads * a.tokens * a.tokens * (width // heads)
    row = {
        "measured": not a.on_cpu,
        "what": f"torch {torch.__version__}, compile, {a.attention}, fused AdamW, {a.classes} classes",
        "device": torch.cuda.get_device_name() if device == "cuda" else "the host",
        "sequences": a.sequences,
        "tokens": a.tokens,
        "step_seconds": seconds,
        "least_seconds": min(times),
        "most_seconds": max(times),
        "tokens_per_second": a.sequences * a.tokens / seconds,
        "model_flops_per_second": flops / seconds,
        "attention_seconds": alone,
        "attention_flops_per_second": attention_flops / alone,
        "warm_up_seconds": warm_up,
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
        "loss": last.item(),
    }
    if a.json:
        with open(a.json, "w") as out:
            json.dump(row, out, indent=1)
    print(("NOT MEASURED, the host ran it: " if a.on_cpu else "") +
          f"{1e3 * seconds:.2f} ms, {row['tokens_per_second']:.0f} tokens/s, {1e-12 * flops / seconds:.1f} TFLOP/s; "
          f"attention alone {1e6 * alone:.0f} us, {1e-12 * row['attention_flops_per_second']:.1f} TFLOP/s")


if __name__ == "__main__":
    main()
