"""All that is measured, as a page, Markdown and JSON."""
