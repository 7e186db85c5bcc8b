"""Kinds of sections that `sitemap.toml` can have: each a table of options, and the sources that it stands for."""
