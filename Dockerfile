# The service, for any site: docs/how-to-containers.md
FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

COPY pyproject.toml README.md LICENSE /source/
COPY flask_sitemapx /source/flask_sitemapx/
RUN pip install --no-cache-dir --compile "/source[fast,files,postgresql,redis,service]" \
    && rm -r /source \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin sitemap \
    && install --directory --owner=sitemap /var/lib/sitemap

WORKDIR /etc/sitemap
USER 10001

ENV PORT=8000
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["python", "-c", "import os; from urllib.request import urlopen; urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=4)"]

ENTRYPOINT ["flask-sitemapx"]
CMD ["serve"]
