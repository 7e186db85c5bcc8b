"""The sitemap protocol and its neighbours, without I/O: entries, dates, URLs, documents, robots.txt."""
