"""The standalone service: a sitemap for any site, from one file."""
