"""A Space: type, and see how any tokenizer of the Hub cuts it."""

import html
from functools import lru_cache

HINTS = ["openai-community/gpt2", "Qwen/Qwen3-0.6B"]
COLOURS = ["#cfe8ff", "#ffe3c2", "#d7f5d0", "#f6d5f0", "#fff3b0"]
STYLE = (
    "display:inline-block;margin:1px;padding:1px 4px;border-radius:4px;color:#111;white-space:pre;background:"
)


@lru_cache(maxsize=8)
def load(name):
    from transformers import AutoTokenizer

    import hf_scaffold  # noqa: F401 - AutoTokenizer then knows the class

    return AutoTokenizer.from_pretrained(name)


def rows(name, text):
    """The pieces and ids by name of the row: as (what the text has there, id)."""
    tokenizer = load(name)
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = {"what the model sees": zip(encoding["offset_mapping"], encoding["input_ids"], strict=True)}
    if type(tokenizer).__name__ == "ScaffoldTokenizerFast":
        raw = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        spans["plain BPE, as other programs read it"] = zip(raw.offsets, raw.ids, strict=True)
    return {row: [(text[begin:end], i) for (begin, end), i in pieces] for row, pieces in spans.items()}


def shown(pieces):
    """Coloured tokens; hovering shows the id. A token that is part of a character shows the character."""
    spans = []
    for n, (piece, i) in enumerate(pieces):
        colour = COLOURS[n % len(COLOURS)]
        spans.append(f'<span style="{STYLE}{colour}" title="{i}">{html.escape(piece) or "&nbsp;"}</span>')
    return "".join(spans)


def cut(name, text):
    """The page's answer."""
    try:
        found = rows(name, text)
    except (OSError, ValueError) as error:
        return f"<p>{html.escape(str(error).partition(chr(10))[0])}</p>"
    answer = ""
    for row, pieces in found.items():
        answer += f"<h4>{row}: {len(pieces)} tokens</h4><div>{shown(pieces)}</div>"
        answer += f"<p><code>{[i for _, i in pieces]}</code></p>"
    return answer


def app():
    """The page."""
    import gradio as gr

    with gr.Blocks(title="Scaffold-BPE, token by token") as page:
        name = gr.Dropdown(
            HINTS, value=HINTS[0], allow_custom_value=True, label="Tokenizer: a name on the Hub"
        )
        text = gr.Textbox("The hippopotamus of Arizona", label="Text", lines=4)
        tokens = gr.HTML()
        gr.on([page.load, name.change, text.change], cut, [name, text], tokens, show_progress="hidden")
    return page


if __name__ == "__main__":
    app().launch()
