"""Run datatrove's DocumentTokenizer in this process; for an interpreter with datatrove.

    PYTHON benchmarks/one_datatrove.py [PARQUET_FOLDER OUT TOKENIZER_JSON]

The pipeline is its parquet reader, its tokenizer and its local executor with one task and one
worker, without shuffling documents. The threads of the tokenizers library are those of the
environment (RAYON_NUM_THREADS). Without arguments it prints the installed version, or null. Prints
one line of JSON. The script does not need nanotok_ray.
"""

import importlib.util
import json
import sys
import time
from importlib.metadata import version
from typing import Any


def main() -> None:
    """Measure, or print the installed peer."""
    print(json.dumps(measure(*sys.argv[1:]) if sys.argv[1:] else here()))


def here() -> dict[str, Any]:
    """Return the peer that can be imported."""
    found = importlib.util.find_spec("datatrove") and importlib.util.find_spec("tokenizers")
    names = ("datatrove", "tokenizers")
    return {"peer": ", ".join(f"{name} {version(name)}" for name in names) if found else None}


def measure(folder: str, out: str, tokenizer: str) -> dict[str, Any]:
    """Tokenize all files of a folder once; seconds include the start of its executor."""
    from datatrove.executor import LocalPipelineExecutor  # noqa: PLC0415 - may not be there
    from datatrove.pipeline.readers import ParquetReader  # noqa: PLC0415
    from datatrove.pipeline.tokens import DocumentTokenizer  # noqa: PLC0415

    executor = LocalPipelineExecutor(
        pipeline=[
            ParquetReader(folder),
            DocumentTokenizer(out, tokenizer, shuffle_documents=False),
        ],
        tasks=1,
        workers=1,
        logging_dir=f"{out}-logs",
    )
    start, begin = time.perf_counter(), time.process_time()
    executor.run()
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - begin}


if __name__ == "__main__":
    main()
