#!/usr/bin/env python3
"""Turns texts into a token file for ct::data::tokens, with a Hugging Face tokenizer (pip install tokenizers):

    tokenize_text.py --tokenizer gpt2 --end "<|endoftext|>" --out train.bin articles.jsonl book.txt

--tokenizer is a tokenizer.json, or the name of a model on the Hugging Face Hub. In a .jsonl file, the "text" of each
line is a document; any other file is one document. If --end is given, this token follows each document. Tokens have 16
bits, or 32 if the vocabulary needs them or --bits 32 is given. The file begins with an llm.c header, which gives the
number of bits; with --plain it has no header, like the files of nanoGPT."""

import argparse
import array
import itertools
import json
import os
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer

HEADERS = {16: (20240520, 1), 32: (20240801, 7)}  # llm.c's magic number and version
HEADER_BYTES = 256 * 4


def documents(paths):
    """The text of each document."""
    for path in paths:
        if path.suffix != ".jsonl":
            with path.open(encoding="utf-8", newline="") as file:  # newline="": do not translate line ends
                yield file.read()
            continue
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                value = json.loads(line)
                text = value.get("text") if isinstance(value, dict) else None
                if not isinstance(text, str):
                    raise SystemExit(f"{path}:{number} has no string in 'text'; add the text of the document")
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError:
                    message = f"{path}:{number} has half of a surrogate pair in 'text'; correct the escapes \\uXXXX"
                    raise SystemExit(message) from None
                yield text


def write_tokens(file, tokenizer, texts, bits, end):
    """Appends the tokens of all texts to the file, and returns their number."""
    count = 0
    texts = iter(texts)
    while batch := list(itertools.islice(texts, 256)):
        tokens = array.array("H" if bits == 16 else "I")
        assert tokens.itemsize == bits // 8
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            tokens.extend(encoding.ids)
            tokens.extend(end)
        count += len(tokens)
        if sys.byteorder == "big":
            tokens.byteswap()
        tokens.tofile(file)
    return count


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokenizer", required=True, help="a tokenizer.json, or the name of a model on the Hub")
    options.add_argument("--out", required=True, type=Path, help="the token file to write")
    options.add_argument("--end", help="the token after each document, such as <|endoftext|>")
    options.add_argument("--bits", type=int, choices=(16, 32), help="bits of a token; default: 16 if they suffice")
    options.add_argument("--plain", action="store_true", help="write no header")
    options.add_argument("texts", nargs="+", type=Path, help="text files, or .jsonl files with a 'text' in each line")
    given = options.parse_args()

    is_file = Path(given.tokenizer).is_file()
    tokenizer = Tokenizer.from_file(given.tokenizer) if is_file else Tokenizer.from_pretrained(given.tokenizer)
    tokenizer.no_truncation()  # a tokenizer.json may limit or pad texts, but documents are kept whole
    tokenizer.no_padding()
    end = []
    if given.end is not None:
        end = [tokenizer.token_to_id(given.end)]
        if end[0] is None:
            raise SystemExit(f"the tokenizer has no token {given.end!r}; give one of its tokens as --end")
    largest = max(tokenizer.get_vocab().values())
    bits = given.bits or (16 if largest < 1 << 16 else 32)
    if largest >= 1 << bits:
        raise SystemExit(f"the tokenizer has tokens up to {largest}, which do not fit into {bits} bits; give --bits 32")

    unfinished = given.out.with_name(given.out.name + ".unfinished")
    file = unfinished.open("wb")
    try:
        with file:
            if not given.plain:
                file.write(bytes(HEADER_BYTES))
            count = write_tokens(file, tokenizer, documents(given.texts), bits, end)
            if count == 0:
                raise SystemExit("the texts have no tokens; give at least one text that is not empty")
            if not given.plain:
                if count >= 1 << 32:
                    raise SystemExit(f"{count} tokens are too many for a header; give --plain, or fewer texts per file")
                file.seek(0)
                file.write(struct.pack("<III", *HEADERS[bits], count))
        os.replace(unfinished, given.out)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    read = f"ct::data::tokens(\"{given.out}\"{', {.bits = 32}' if given.plain and bits == 32 else ''})"
    tokens = "1 token" if count == 1 else f"{count} tokens"
    print(f"{tokens} of {bits} bits, vocabulary {largest + 1}: read with {read}")


if __name__ == "__main__":
    main()
