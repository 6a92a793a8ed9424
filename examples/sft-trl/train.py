"""A small new model trained with TRL on the export of recipe.toml, 20 steps on a CPU.

To fine-tune a model, load it with `AutoModelForCausalLM.from_pretrained`.
"""

from datasets import load_dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("/data/model")
files = "/data/out-sft/export/parquet/*/train/*.parquet"
rows = load_dataset("parquet", data_files=files, split="train").shuffle(seed=1)

config = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
settings = SFTConfig(
    output_dir="/data/sft",
    max_length=None,  # the job has applied limits.max_tokens
    max_steps=20,
    logging_steps=5,
    learning_rate=1e-2,
    per_device_train_batch_size=4,
    use_cpu=True,
    bf16=False,
    report_to="none",
)
trainer = SFTTrainer(
    LlamaForCausalLM(config), args=settings, train_dataset=rows, processing_class=tokenizer
)
trainer.train()
