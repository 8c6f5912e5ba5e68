"""Models of a few thousand parameters, untrained, but always the same."""

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
CAUSAL = ("gpt2", "llama")


def causal(kind, tokenizer):
    """A language model whose ids are the tokenizer's."""
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    torch.manual_seed(0)
    if kind == "gpt2":
        config = GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=32, n_layer=1, n_head=2, **ids)
        return GPT2LMHeadModel(config).eval()
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=256, **SIZES, **ids)
    ).eval()


def bert(task, tokenizer):
    cls, n_labels = {
        "fill-mask": (BertForMaskedLM, 2),
        "token-classification": (BertForTokenClassification, 3),
        "text-classification": (BertForSequenceClassification, 2),
    }[task]
    config = BertConfig(
        vocab_size=len(tokenizer),
        **SIZES,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=n_labels,
        initializer_range=1.0,
    )
    torch.manual_seed(0)
    return cls(config).eval()
