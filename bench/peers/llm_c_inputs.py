"""Writes the inputs of llm.c's train_gpt2 into a checkout of llm.c: GPT-2 124M with random weights, and random tokens.

    python bench/peers/llm_c_inputs.py PATH
"""

import pathlib
import sys

import numpy

LAYERS, WIDTH, HEADS, TOKENS, VOCABULARY, PADDED = 12, 768, 12, 1024, 50257, 50304
ENTRIES = 256  # number of entries of a header, 32 bits each


def header(*values):
    return numpy.array(list(values) + [0] * (ENTRIES - len(values)), dtype=numpy.int32).tobytes()


def weights(random):
    def normal(*shape):
        return 0.02 * random.standard_normal(shape, dtype=numpy.float32)

    def constant(value, *shape):
        return numpy.full(shape, value, dtype=numpy.float32)

    per_layer = LAYERS, WIDTH
    yield from (normal(PADDED, WIDTH), normal(TOKENS, WIDTH))
    yield from (constant(1, *per_layer), constant(0, *per_layer))
    yield from (normal(LAYERS, 3 * WIDTH, WIDTH), constant(0, LAYERS, 3 * WIDTH))
    yield from (normal(LAYERS, WIDTH, WIDTH), constant(0, *per_layer))
    yield from (constant(1, *per_layer), constant(0, *per_layer))
    yield from (normal(LAYERS, 4 * WIDTH, WIDTH), constant(0, LAYERS, 4 * WIDTH))
    yield from (normal(LAYERS, WIDTH, 4 * WIDTH), constant(0, *per_layer))
    yield from (constant(1, WIDTH), constant(0, WIDTH))


def main(checkout):
    random = numpy.random.default_rng(1)
    with open(checkout / "gpt2_124M.bin", "wb") as out:
        out.write(header(20240326, 3, TOKENS, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED))
        for tensor in weights(random):
            out.write(tensor.tobytes())
    data = checkout / "dev" / "data" / "tinyshakespeare"
    data.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        tokens = random.integers(0, VOCABULARY, 65536).astype(numpy.uint16)
        (data / f"tiny_shakespeare_{name}.bin").write_bytes(header(20240520, 1, len(tokens)) + tokens.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("llm_c_inputs: give the path of a checkout of llm.c")
    main(pathlib.Path(sys.argv[1]))
