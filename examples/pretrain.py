"""A tokenizer and a small Llama from scratch: python pretrain.py my-model books/*.txt"""

import argparse
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", help="the folder to save model and tokenizer in")
    parser.add_argument("text", nargs="+", help="plain-text files")
    parser.add_argument("--vocab-size", type=int, default=8000, help="tokens (8000)")
    parser.add_argument("--hidden-size", type=int, default=256, help="of the model (256)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (4)")
    parser.add_argument("--block-size", type=int, default=256, help="ids an example has (256)")
    parser.add_argument("--steps", type=int, default=1000, help="of 16 examples (1000)")
    options = parser.parse_args()

    from datasets import load_dataset
    from transformers import (
        DataCollatorForLanguageModeling,
        LlamaConfig,
        LlamaForCausalLM,
        Trainer,
        TrainingArguments,
    )

    import hf_scaffold as hs

    tokenizer = hs.train_tokenizer(
        map(Path, options.text), vocab_size=options.vocab_size, eos_token="<|endoftext|>", pad_token="<|pad|>"
    )
    texts = load_dataset("text", data_files=options.text, sample_by="document", split="train")

    def blocks_of(batch):
        joined = tokenizer.eos_token.join(batch["text"])
        return tokenizer(
            joined, truncation=True, max_length=options.block_size, return_overflowing_tokens=True
        )

    rows = texts.map(blocks_of, batched=True, remove_columns=texts.column_names)
    rows = rows.select_columns(["input_ids", "attention_mask"])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden_size,
        intermediate_size=4 * options.hidden_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.hidden_size // 32,
        max_position_embeddings=options.block_size,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    trainer = Trainer(
        model,
        TrainingArguments(
            options.output,
            max_steps=options.steps,
            per_device_train_batch_size=16,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            warmup_steps=options.steps // 20,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()  # with the tokenizer

    begin = tokenizer("It was", return_tensors="pt").to(model.device)
    made = model.generate(**begin, max_new_tokens=30, do_sample=True, top_p=0.9)
    print(tokenizer.decode(made[0], skip_special_tokens=True))


if __name__ == "__main__":
    main()
