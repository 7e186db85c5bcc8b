"""Sets are kept fresh without anybody asking for them."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from flask_sitemapx.service import keeping
from flask_sitemapx.service.configuration import configuration
from flask_sitemapx.service.keeping import Keeper, keep
from flask_sitemapx.service.sites import Sites
from tests.waiting import until

PAGES = 'base_url = "https://a.example"\n[sections.pages]\ntype = "urls"\nurls = ["/"]\n'
CODE = '[sections.code]\ntype = "python"\nsource = "{}:pages"\n'


def sites(text: str, directory: Path = Path("/srv")) -> Sites:
    return Sites(configuration(text, directory / "sitemap.toml", {}), {})


def kept_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sitemap-keep-")]


@pytest.fixture
def ending(monkeypatch):
    """An event by which what a test keeps ends."""
    monkeypatch.setattr(keeping, "LEAST_SECONDS", 0.01)
    event = threading.Event()
    threads: list[threading.Thread] = []

    def begin(binding) -> None:
        threads.append(threading.Thread(target=keep, args=(binding, event)))
        threads[-1].start()

    yield begin
    event.set()
    for thread in threads:
        thread.join()


def test_a_set_that_is_due_is_built_again_and_again(ending):
    binding = sites("refresh = 0\n" + PAGES)["a.example"]
    ending(binding)
    until(lambda: (built := binding.refresher().last_good()) and built.number >= 3)


def test_a_failure_does_not_end_it(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("flask_sitemapx.snapshots.refresher.FIRST_RETRY", 0.01)
    binding = sites("refresh = 0\nbuild_wait = 0\n" + PAGES + CODE.format("comes_later"), tmp_path)["a.example"]
    ending(binding)
    until(lambda: binding.refresher().error)
    (tmp_path / "comes_later.py").write_text("def pages():\n    yield '/later'\n")
    until(lambda: (built := binding.refresher().last_good()) and built.count == 2)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks, and has threads
def test_it_begins_once_in_each_process():
    keeper = Keeper(sites(PAGES))
    before = len(kept_threads())
    for _ in range(2):
        keeper.begin()
    assert len(kept_threads()) == before + 1
    child = os.fork()
    if child == 0:
        os._exit(int(keeper.has_begun))
    assert os.waitpid(child, 0)[1] == 0


def test_it_ends_with_its_keeper():
    keeper = Keeper(sites(PAGES))
    before = set(kept_threads())
    keeper.begin()
    (thread,) = set(kept_threads()) - before
    del keeper
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
