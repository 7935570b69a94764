"""Measures a full AdamW step in PyTorch of a model of bench/models.hpp: of GPT-2 124M as plain modules, or of BERT or
Llama from Transformers.

    training_step.py [--model gpt2|bert_large|llama_1b|llama_1b_2_layers] [--precision fp32|bf16] [--tokens N]
                     [--mode eager|compile] [--update auto|fused|foreach] [--rounds N] [--threads N]

Prints one line: model, precision, size, mode, form of AdamW, seconds of the median step, peak bytes and version of
PyTorch. With --update auto, the default, it tries AdamW's fused and foreach forms and measures the faster one."""

import argparse
import math
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        sequences, tokens, width = x.shape
        parts = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(sequences, tokens, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(sequences, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers=12, heads=12, width=768, vocabulary=50257, context=1024):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class Logits(nn.Module):
    """A model of Transformers as a function from tokens to logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits if self.is_causal else self.model(tokens).logits

    @property
    def is_causal(self):
        return hasattr(self.model, "lm_head")


def bert_large():
    """As `bert_large.with_classes(2)`, without dropout."""
    from transformers import BertConfig, BertForSequenceClassification

    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                        num_labels=2, **without_dropout)
    return Logits(BertForSequenceClassification(config))


def llama_1b(layers=16):
    """Llama 3.2 1B, or its first `layers` layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers,
                         num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
                         rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=rope)
    return Logits(LlamaForCausalLM(config))


# For each model: how it is made, sequences, default tokens, vocabulary, classes (None: a label for each token).
MODELS = {
    "gpt2": (GPT2, 4, 64, 50257, None),
    "bert_large": (bert_large, 1, 512, 30522, 2),
    "llama_1b": (llama_1b, 1, 512, 128256, None),
    "llama_1b_2_layers": (lambda: llama_1b(2), 1, 512, 128256, None),
}


def make_step(model, optimizer, forward, tokens, labels, bf16):
    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            logits = forward(tokens)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def seconds_of(step):
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", choices=MODELS, default="gpt2")
    arguments.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    arguments.add_argument("--tokens", type=int, default=0)  # 0: the model's
    arguments.add_argument("--mode", choices=("eager", "compile"), default="eager")
    arguments.add_argument("--update", choices=("auto", "fused", "foreach"), default="auto")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--threads", type=int, default=0)
    a = arguments.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)

    torch.manual_seed(1)
    make, sequences, length, vocabulary, classes = MODELS[a.model]
    length = a.tokens or length
    model = make().train()
    tokens = torch.randint(vocabulary, (sequences, length))
    labels = torch.randint(classes or vocabulary, (sequences,) if classes else (sequences, length))
    forward = torch.compile(model) if a.mode == "compile" else model
    def prepare(form):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1, **{form: True})
        step = make_step(model, optimizer, forward, tokens, labels, a.precision == "bf16")
        step(), step()
        return step

    form = "fused" if a.update == "auto" else a.update
    step = prepare(form)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before the second optimizer adds its states
    if a.update == "auto":
        other = prepare("foreach")
        if min(seconds_of(other), seconds_of(other)) < min(seconds_of(step), seconds_of(step)):
            form, step = "foreach", other
    seconds = statistics.median(seconds_of(step) for _ in range(a.rounds))
    size = f"{sequences}x{length}"
    print(f"{a.model} {a.precision} {size} {a.mode} {form} {seconds:.6f} {peak} torch-{torch.__version__}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
