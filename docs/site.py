"""What the site needs besides mkdocs.yml: it is a hook of MkDocs and an extension of mkdocstrings."""

import re
from typing import Any

import griffe

SECTION = re.compile(r"\n(?=(?:Args|Attributes|Raises|Returns|Yields|Example):)")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# On one line, as "Cost: O(n)." or "Raises: As `count`."; and what goes on there is indented.
REMARK = re.compile(r"^(Args|Cost|Raises|Source): (.*(?:\n +.*)*)", re.MULTILINE)
OUTSIDE = re.compile(r"\]\(\.\./")


class Sections(griffe.Extension):
    """Sections of our docstrings follow each other without empty lines, which mkdocstrings asks for."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = SECTION.sub("\n\n", obj.docstring.value)
            text = REMARK.sub(lambda found: f"\n**{found[1]}:** " + re.sub(r"\n +", "\n", found[2]), text)
            obj.docstring.value = EXAMPLE.sub("Examples:", text)  # whose prompts become code


def on_page_markdown(markdown: str, *, config: Any, **kwargs: Any) -> str:
    """Files that the site doesn't have are in the repository."""
    return OUTSIDE.sub(f"]({config.repo_url}/blob/main/", markdown)


def on_post_page(output: str, **kwargs: Any) -> str:
    """A page asks no other server for anything: at this mark the theme asks api.github.com for stars."""
    return output.replace(' data-md-component="source"', "")


def on_post_template(output_content: str, **kwargs: Any) -> str:
    """The same for 404.html."""
    return on_post_page(output_content)
