"""The tokenizer: learning from counts, encoding, decoding, rendering, and its files.

The input is counts of spans, or the files of a tokenizer in the formats of this project, nanochat,
tiktoken or Hugging Face. The output is a `Tokenizer`, token ids, and the same files.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.recipe import SPECIAL_TOKENS
    from nanotok_ray.tokenizer.base import Base, base_of, span_encoder
    from nanotok_ray.tokenizer.engines import TokenizersEngine, engine_of
    from nanotok_ray.tokenizer.file_model import FileModel
    from nanotok_ray.tokenizer.folder import (
        FILE_NAMES,
        NEW_TOKENS_NAME,
        READABLE_NAME,
        default_folder,
        differing_files,
        save_for_nanochat,
    )
    from nanotok_ray.tokenizer.huggingface import (
        CHAT_TEMPLATE,
        to_chat_template,
        to_huggingface_config,
        to_huggingface_file,
        to_huggingface_split,
        token_bytes,
        with_atomic_intervals,
    )
    from nanotok_ray.tokenizer.model import NUM_BYTES, IdTable, Model, make_model
    from nanotok_ray.tokenizer.opened import (
        RANKS,
        expected_tokenizer,
        open_tokenizer,
        path_and_pattern,
        written_tokenizer,
    )
    from nanotok_ray.tokenizer.output import (
        OR_FORCE,
        WITHOUT_SPECIAL_TOKENS,
        check_free,
        file_suffix,
        files_of_others,
        files_there,
        sized_output,
        write_file,
        write_new,
    )
    from nanotok_ray.tokenizer.pieces import char_offsets
    from nanotok_ray.tokenizer.readable import (
        from_readable,
        sha256_of,
        to_readable,
        to_tiktoken_file,
    )
    from nanotok_ray.tokenizer.report import (
        BELOW_MIN_PAIR_COUNT,
        NO_PAIR_LEFT,
        REACHED,
        REPORT_NAME,
        Learned,
        cut_report,
        short_report,
        token_text,
        training_report,
        why_stopped,
    )
    from nanotok_ray.tokenizer.rustbpe import RustBPETokenizer, get_token_bytes, get_tokenizer
    from nanotok_ray.tokenizer.templates import template_settings, templates_of
    from nanotok_ray.tokenizer.tokenizer import Tokenizer
    from nanotok_ray.tokenizer.train import (
        LearnedTokenizer,
        Made,
        MergeProgress,
        SuperwordRules,
        TrainSettings,
        count_spans,
        learn_counts,
        learn_merges,
        train_tokenizer,
    )
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "huggingface": (
                "CHAT_TEMPLATE to_chat_template "
                "to_huggingface_config to_huggingface_file to_huggingface_split token_bytes "
                "with_atomic_intervals"
            ),
            "readable": "from_readable sha256_of to_readable to_tiktoken_file",
            "special_tokens": "SPECIAL_TOKENS",
            "engines": "TokenizersEngine engine_of",
            "file_model": "FileModel",
            "base": "Base base_of span_encoder",
            "folder": (
                "FILE_NAMES NEW_TOKENS_NAME READABLE_NAME default_folder differing_files "
                "save_for_nanochat"
            ),
            "model": "IdTable Model NUM_BYTES make_model",
            "opened": "RANKS expected_tokenizer open_tokenizer path_and_pattern written_tokenizer",
            "output": (
                "OR_FORCE WITHOUT_SPECIAL_TOKENS check_free file_suffix files_of_others "
                "files_there sized_output write_file write_new"
            ),
            "report": (
                "BELOW_MIN_PAIR_COUNT Learned NO_PAIR_LEFT REACHED "
                "REPORT_NAME cut_report short_report token_text training_report why_stopped"
            ),
            "rustbpe": "RustBPETokenizer get_token_bytes get_tokenizer",
            "pieces": "char_offsets",
            "templates": "template_settings templates_of",
            "tokenizer": "Tokenizer",
            "train": (
                "LearnedTokenizer Made MergeProgress SuperwordRules TrainSettings count_spans "
                "learn_counts learn_merges train_tokenizer"
            ),
        },
    )

__all__ = [
    "BELOW_MIN_PAIR_COUNT",
    "CHAT_TEMPLATE",
    "FILE_NAMES",
    "NEW_TOKENS_NAME",
    "NO_PAIR_LEFT",
    "NUM_BYTES",
    "OR_FORCE",
    "RANKS",
    "REACHED",
    "READABLE_NAME",
    "REPORT_NAME",
    "SPECIAL_TOKENS",
    "WITHOUT_SPECIAL_TOKENS",
    "Base",
    "FileModel",
    "IdTable",
    "Learned",
    "LearnedTokenizer",
    "Made",
    "MergeProgress",
    "Model",
    "RustBPETokenizer",
    "SuperwordRules",
    "Tokenizer",
    "TokenizersEngine",
    "TrainSettings",
    "base_of",
    "char_offsets",
    "check_free",
    "count_spans",
    "cut_report",
    "default_folder",
    "differing_files",
    "engine_of",
    "expected_tokenizer",
    "file_suffix",
    "files_of_others",
    "files_there",
    "from_readable",
    "get_token_bytes",
    "get_tokenizer",
    "learn_counts",
    "learn_merges",
    "make_model",
    "open_tokenizer",
    "path_and_pattern",
    "save_for_nanochat",
    "sha256_of",
    "short_report",
    "sized_output",
    "span_encoder",
    "template_settings",
    "templates_of",
    "to_chat_template",
    "to_huggingface_config",
    "to_huggingface_file",
    "to_huggingface_split",
    "to_readable",
    "to_tiktoken_file",
    "token_bytes",
    "token_text",
    "train_tokenizer",
    "training_report",
    "why_stopped",
    "with_atomic_intervals",
    "write_file",
    "write_new",
    "written_tokenizer",
]
