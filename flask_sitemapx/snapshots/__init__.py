"""Immutable sets of sitemaps: how they are built, stored, published and kept fresh."""
