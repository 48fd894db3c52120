"""Comparisons drawn: in a terminal, as Markdown, as a page, as figures; and their words."""
