#!/usr/bin/env python3
"""A corpus of libFuzzer as one file, and back: pack.py pack DIRECTORY FILE, pack.py unpack FILE DIRECTORY. In the file
every input follows its length, four bytes, the lowest first."""

import sys
from pathlib import Path


def pack(directory, file):
    inputs = sorted({path.read_bytes() for path in Path(directory).iterdir()}, key=lambda b: (len(b), b))
    Path(file).write_bytes(b"".join(len(b).to_bytes(4, "little") + b for b in inputs))


def unpack(file, directory):
    rest, number = Path(file).read_bytes(), 0
    Path(directory).mkdir(parents=True, exist_ok=True)
    while rest:
        size = int.from_bytes(rest[:4], "little")
        (Path(directory) / str(number)).write_bytes(rest[4:4 + size])
        rest, number = rest[4 + size:], number + 1


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
