"""Writes the inputs that fuzzing begins with: python3 rust/fuzz/seeds.py FOLDER.

Any bytes are a program (src/program.rs), so seeds are random bytes: always the same, in some lengths,
some for each pattern (the first byte) and, where merges follow, few or many of them (the fourth).
"""

import random
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
random.seed(0)
for pattern in range(8):
    for number, length in enumerate((8, 20, 50, 150)):
        head = bytes([pattern, random.randrange(256), random.randrange(256), 12 * number])
        (folder / f"{pattern}-{number}").write_bytes(head + random.randbytes(length))
