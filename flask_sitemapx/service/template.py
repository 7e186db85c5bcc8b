"""The file that `flask-sitemapx init` writes."""

from __future__ import annotations

TEMPLATE = """\
# The sitemap of a site. `flask-sitemapx serve` answers /sitemap.xml and /robots.txt from it, `flask-sitemapx config`
# prints what is in force. Each setting may stand in the environment instead, as SITEMAP_STORE or SITEMAP_MAX_URLS, and
# ${NAME} in a text is the environment's variable NAME: that is where passwords belong.

# Where the site is: what each address in the sitemap begins with.
base_url = "https://www.example.com"

# Where sitemaps are kept. "memory:" is good for one process; a directory for all processes of a machine; a Redis or
# a database for several machines: "${REDIS_URL}", "${DATABASE_URL}".
store = "file:sitemaps"

# Seconds after which the sections are read again.
# refresh = 3600

# A section is a source of addresses. Its name is part of its sitemaps' names: /sitemap-pages-1.xml.
[sections.pages]
type = "urls"
urls = [
    "/",
    { loc = "/about", lastmod = 2026-11-30 },
]

# The rows of a table, in the database at DATABASE_URL:
# [sections.products]
# type = "sql"
# table = "products"
# key = "id"
# loc = "/p/{slug}"
# lastmod = "updated_at"

# The rows of a file:
# [sections.articles]
# type = "csv"
# path = "articles.csv"
# loc = "/a/{slug}"

# The pages of a site that was built into a directory:
# [sections.docs]
# type = "directory"
# path = "public"

# What robots.txt says, besides where the sitemap is.
[robots]
disallow = []

# [[robots.groups]]
# user_agents = ["GPTBot", "CCBot"]
# disallow = ["/"]

# Several sites, told apart by the host of a request. What a site does not say itself, the file says above it; then
# base_url stands in the sites alone.
# [site."blog.example"]
# base_url = "https://blog.example"
# [site."blog.example".sections.pages]
# type = "urls"
# urls = ["/"]
"""
