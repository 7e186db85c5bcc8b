"""django.contrib.sitemaps: items in memory, `reverse` for the path, its own view and template."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode

import django
from django.conf import settings

from ..workload import HOST, Row
from . import Peer


def peer(rows: Sequence[Row]) -> Peer:
    """The sitemap view of a Django project with one route; Django is set up once a process."""
    set_up()
    from django.core.handlers.wsgi import WSGIHandler
    from django.test import RequestFactory

    from . import django_urls

    django_urls.SITEMAPS["products"] = products(rows)
    request = RequestFactory().get("/sitemap.xml", secure=True, headers={"host": HOST})

    def document() -> str:
        text: str = django_urls.view(request).render().content.decode()
        return text

    return Peer(document, WSGIHandler(), "/sitemap.xml")


def set_up() -> None:
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            INSTALLED_APPS=["django.contrib.sitemaps"],
            ROOT_URLCONF=f"{__package__}.django_urls",
            TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
            TIME_ZONE="UTC",
            USE_I18N=False,
        )
        django.setup()


def products(rows: Sequence[Row]) -> object:
    from django.contrib.sitemaps import Sitemap
    from django.urls import reverse

    class Products(Sitemap):  # type: ignore[misc,unused-ignore]
        def items(self) -> Sequence[Row]:
            return rows

        def location(self, item: Row) -> str:
            endpoint, values, _ = item
            path = reverse(endpoint, kwargs={"category": values["category"], "slug": values["slug"]})
            return f"{path}?{urlencode({'v': values['v'], 'ref': values['ref']})}"

        def lastmod(self, item: Row) -> datetime:
            return item[2]

    return Products()
