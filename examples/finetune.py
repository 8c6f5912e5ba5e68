"""A model taught to chat with TRL: python finetune.py my-model chats.jsonl my-chat-model"""

import argparse

TEMPLATE = """\
{%- for message in messages -%}
{{ '<|' + message.role + '|>' }}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{ message.content + eos_token }}{%- endgeneration -%}
{%- else -%}
{{ message.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"""
ROLES = ["<|system|>", "<|user|>", "<|assistant|>"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder with model and tokenizer, such as pretrain.py's")
    parser.add_argument("chats", help='JSON Lines: {"messages": [{"role": "user", "content": "…"}, …]}')
    parser.add_argument("output", help="the folder to save in")
    parser.add_argument("--steps", type=int, default=200, help="of 8 chats (200)")
    parser.add_argument("--max-length", type=int, default=256, help="ids of a chat (256)")
    options = parser.parse_args()

    import torch
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    import hf_scaffold  # noqa: F401 - AutoTokenizer then knows the class

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model)
    tokenizer.add_special_tokens({"additional_special_tokens": ROLES})
    tokenizer.chat_template = TEMPLATE
    model.resize_token_embeddings(len(tokenizer))

    trainer = SFTTrainer(
        model,
        SFTConfig(
            options.output,
            max_steps=options.steps,
            max_length=options.max_length,
            per_device_train_batch_size=8,
            assistant_only_loss=True,
            bf16=torch.cuda.is_available(),
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=load_dataset("json", data_files=options.chats, split="train"),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()

    chat = [{"role": "user", "content": "Who are you?"}]
    begin = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**begin.to(model.device), max_new_tokens=30)
    print(tokenizer.decode(made[0, begin["input_ids"].shape[1] :], skip_special_tokens=True))


if __name__ == "__main__":
    main()
