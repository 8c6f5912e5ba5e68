"""Texts in many scripts, with spaces, line ends and symbols where programs may differ."""

TEXTS = [
    *("", " ", "  ", "\n", " \n ", "a", " a", "a ", "  a  b ", "a\tb\r\n c\n\n d \n", "end \n \n", "tail   "),
    *("it's I'M we'LL They'd've 'tis", "12 345 6789, 3.14 ½ ٣٤ Ⅷ x1 1x  1", "_snake_case__ $5 <<a>> -- …"),
    *(
        "naïve café Ångström e\u0301 n\u0303",
        "Привет, мир! Война и мир",
        "日本語の本、日本語の木。",
        "한국어 문장",
    ),
    *("مرحبا بالعالم", "ქართული ენა", "नमस्ते दुनिया", "สวัสดีชาวโลก", "🙂🙃👩‍👩‍👧 ok", "\u3000x\u00a0y\u200bz"),
    *(
        "▁x ▁ ▁▁y",
        "aaaaaaaa aaa",
        "    indented\n        more",
        "<unk> <s> ",
        "\x00\x01 \x7f",
        "\u017f \u212a ﬁ ǅ",
    ),
    "The quick brown fox wasn't over the lazy dog; Heathcliff said so himself, in 1801.",
]
