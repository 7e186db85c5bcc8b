"""`python -m flask_sitemapx`: the standalone service from the command line."""

from __future__ import annotations

from .service.commands import main

if __name__ == "__main__":
    main(prog_name="flask-sitemapx")
