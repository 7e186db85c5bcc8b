"""What is counted of the answers and known of the sites, as Prometheus reads it."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..binding import Binding
from ..errors import ConfigurationError, SitemapError, StoreError
from ..serving.publisher import INDEX, PAGE, ROBOTS, STYLE, address

if TYPE_CHECKING:
    from prometheus_client import Counter
    from prometheus_client.core import GaugeMetricFamily

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Where processes that answer for each other leave their counts; it has to be set before the first of them counts."""
PACKAGE = __name__.partition(".")[0]


class Metrics:
    """Counts answers in this process, and tells the counts of all, beside what is known of *sites*.

    Raises `ConfigurationError` if prometheus_client is not installed.
    """

    def __init__(self, sites: Mapping[str, Binding]) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError:
            raise ConfigurationError("metrics need prometheus_client: pip install 'flask-sitemapx[service]'") from None
        self._sites = sites
        self._registry = CollectorRegistry()
        self._answers = self._counter("answers", "Answers, by what they are and their status.", "kind", "status")
        self._bytes = self._counter("sent_bytes", "Bytes of bodies, before any chunking.", "kind")
        self._store_errors = self._counter("store_errors", "Errors of stores, as often as they were logged.")
        # Found once: a lookup by labels costs as much as the count itself.
        self._answer = lru_cache(maxsize=512)(self._answers.labels)
        self._sent = lru_cache(maxsize=16)(self._bytes.labels)
        weakref.finalize(self, _count_store_errors(self._store_errors))

    def count(self, kind: str, status: str) -> None:
        """Note an answer; *status* has three digits."""
        self._answer(kind, status).inc()

    def count_bytes(self, kind: str, length: int) -> None:
        self._sent(kind).inc(length)

    def text(self) -> tuple[str, bytes]:
        """Media type and text of all metrics."""
        from prometheus_client import CollectorRegistry, exposition, multiprocess

        registry = CollectorRegistry()
        if os.environ.get(DIRECTORY):
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        else:
            registry.register(self._registry)
        registry.register(_Sites(self._sites))
        return exposition.CONTENT_TYPE_LATEST, exposition.generate_latest(registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        from prometheus_client import Counter

        return Counter(f"sitemap_{name}", help, labels, registry=self._registry)


@lru_cache(maxsize=256)
def kind(path: str) -> str:
    """What is asked for at *path*: ``index``, ``shard``, ``robots``, ``page`` or ``other``."""
    found = address(path[path.rfind("/") :])  # whatever a site is mounted below: ours have no folders
    if found is ROBOTS:
        return "robots"
    if found is PAGE or found is STYLE:
        return "page"
    if found is None or found.suffix == ".atom":
        return "other"
    return "shard" if found.section and found.section != INDEX else "index"


def _count_store_errors(counter: Counter) -> Callable[[], None]:
    """Count from now on; what is returned ends that."""
    logger = logging.getLogger(PACKAGE)
    added: list[logging.Handler] = [_StoreErrors(counter)]
    if not logger.hasHandlers() and logging.lastResort is not None:
        added.append(logging.lastResort)  # which ours would silence
    for handler in added:
        logger.addHandler(handler)

    def end() -> None:
        for handler in added:
            logger.removeHandler(handler)

    return end


class _StoreErrors(logging.Handler):
    """Counts log records about a `StoreError`: the first of each outage, and each request that it left unanswered."""

    def __init__(self, counter: Counter) -> None:
        super().__init__(logging.WARNING)
        self._counter = counter

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and any(isinstance(arg, StoreError) for arg in record.args):
            self._counter.inc()


GAUGES = {
    "up": "1 if a set is being served.",
    "store_up": "1 if the last look at the store went well.",
    "set_age_seconds": "Seconds since the set that is being served was built.",
    "set_number": "Its number, which grows with each build that publishes.",
    "build_seconds": "How long it took to build.",
    "sitemaps": "Sitemaps in it.",
    "entries": "URLs in it.",
    "dropped": "Entries that were left out of it, by the rule that they break.",
    "section_failed": "1 if these are entries of an earlier time, since the section could not be read.",
}
"""What is told of each site, or of each of its sections, when it is asked for."""
_OF_SECTIONS = {"entries", "sitemaps", "section_failed"}


class _Sites:
    """What is known of *sites* at the time of a scrape, as a collector of prometheus_client."""

    def __init__(self, sites: Mapping[str, Binding]) -> None:
        self._sites = sites

    def collect(self) -> Iterable[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        families = {
            name: GaugeMetricFamily(f"sitemap_{name}", help, labels=_labels(name)) for name, help in GAUGES.items()
        }
        for site, binding in self._sites.items():
            for name, labels, value in facts(binding):
                families[name].add_metric([site, *labels], value)
        return families.values()


def _labels(name: str) -> list[str]:
    if name == "dropped":
        return ["site", "section", "rule"]
    return ["site", "section"] if name in _OF_SECTIONS else ["site"]


def facts(binding: Binding) -> Iterator[tuple[str, list[str], float]]:
    """The gauges of one site: name, the values of further labels, value."""
    try:
        refresher = binding.refresher()
        snapshot = refresher.last_good()
    except SitemapError:
        yield "up", [], 0
        yield "store_up", [], 0
        return
    yield "store_up", [], refresher.store_error is None
    if snapshot is None or snapshot.fingerprint == "":
        yield "up", [], 0
        return
    yield "up", [], 1
    yield "set_age_seconds", [], max(0.0, time.time() - snapshot.built_at)
    yield "set_number", [], snapshot.number
    yield "build_seconds", [], snapshot.seconds
    for name, section in snapshot.sections.items():
        yield "entries", [name], section.count
        yield "sitemaps", [name], len(section.listed)
        yield "section_failed", [name], section.error is not None
        for rule, (count, _) in section.problems.items():
            yield "dropped", [name, rule], count


def known(binding: Binding) -> dict[str, Any]:
    """What ``/readyz`` says of a site."""
    found = [*facts(binding)]
    values = {name: value for name, labels, value in found if not labels}
    return {
        "ready": values["up"] == 1,
        "age": round(values["set_age_seconds"]) if "set_age_seconds" in values else None,
        "entries": sum(int(value) for name, _, value in found if name == "entries"),
        "store": "up" if values["store_up"] else "down",
    }
