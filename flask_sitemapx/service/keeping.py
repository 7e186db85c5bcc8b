"""Sets that are kept fresh by themselves, whether anybody asks for them or not."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping

from ..binding import Binding
from ..errors import NotBuilt, SitemapError
from ..snapshots.forking import after_fork

logger = logging.getLogger(__name__)

MOST_SECONDS = 15.0
"""How often a set is looked at, unless it is to be built more often."""
LEAST_SECONDS = 1.0


class Keeper:
    """A thread for each of *sites*, so that none waits for another; `begin` starts them, once in each process.

    They end when it is collected.
    """

    has_begun: bool

    def __init__(self, sites: Mapping[str, Binding]) -> None:
        self._sites = sites
        self._ending = threading.Event()
        weakref.finalize(self, self._ending.set)
        self._reset()
        after_fork(self._reset)

    def begin(self) -> None:
        if self.has_begun:
            return
        with self._lock:
            if self.has_begun:
                return
            self.has_begun = True
        for name, binding in self._sites.items():
            given = (binding, self._ending)
            threading.Thread(target=keep, args=given, name=f"sitemap-keep-{name}", daemon=True).start()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.has_begun = False


def keep(binding: Binding, ending: threading.Event) -> None:
    """Ask for the set of *binding* whenever it may be due, until *ending* is set."""
    pause = min(MOST_SECONDS, max(LEAST_SECONDS, binding.services().settings.refresh))
    while True:
        try:
            binding.refresher().current()
        except NotBuilt:
            pass  # the build that this began goes on, or says itself what is wrong
        except SitemapError as error:
            logger.error("sitemap: %s", error)
        except Exception:  # which may have passed by the next time
            logger.exception("sitemap: the set of %s is not kept fresh", binding.services().hosts.fixed)
        if ending.wait(pause):
            return
