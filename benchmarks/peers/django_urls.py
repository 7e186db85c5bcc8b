"""The URLs of the Django project that django_peer sets up: the catalogue's route, and the sitemap."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.sitemaps.views import sitemap
from django.http import HttpResponse
from django.urls import path

SITEMAPS: dict[str, Any] = {}
view = partial(sitemap, sitemaps=SITEMAPS)

urlpatterns = [
    path("catalogue/<str:category>/<str:slug>", lambda request, category, slug: HttpResponse(), name="product"),
    path("sitemap.xml", view),
]
