"""Sections in parts: what is read again, what is carried over, which numbers sitemaps get, what is left for later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.shards import Limits
from flask_sitemapx.snapshots.snapshot import Archive
from tests.section_sources import KeyedSource, ListSource, Site, numbered

DAY = 86_400.0


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


@pytest.fixture
def news() -> KeyedSource:
    return KeyedSource("news", october=numbered(5), november=numbered(5, start=5), december=numbered(5, start=10))


@pytest.fixture
def site(store, news) -> Site:
    return Site(store, news, always_index=True, verify_age=7 * DAY, grace=DAY)


def test_each_part_is_a_sitemap(site, news):
    site.build()
    assert site.numbers("news") == [1, 2, 3]
    assert site.listed("news") == numbered(15)
    assert news.closed == ["october", "november", "december"]


def test_a_part_is_read_again_when_its_version_changes_and_the_others_are_not(site, news):
    before = site.build().sections["news"].shards
    news.parts["november"].append("/new")
    site.build()
    assert site.listed("news") == numbered(15)
    news.versions["november"] = "2"
    after = site.build().sections["news"].shards
    assert "/new" in site.listed("news")
    assert news.pulls[3:] == ["november"]
    assert (before[0], before[2]) == (after[0], after[2])
    assert site.numbers("news") == [1, 2, 3]


def test_a_part_without_a_version_is_read_at_each_build(site, news):
    news.versions["october"] = None
    site.build()
    site.build()
    assert news.pulls == ["october", "november", "december", "october"]


def test_a_part_is_read_again_after_the_verify_age(site, news):
    site.build()
    site.clock.now += 7 * DAY - 1
    site.build()
    assert len(news.pulls) == 3
    site.clock.now += 1
    site.build()
    assert len(news.pulls) == 6


def test_under_another_rule_every_part_is_read_again(site, news):
    site.build()
    site.fingerprint = "other"
    site.build()
    assert len(news.pulls) == 6
    news.own_rule = "own"
    site.build()
    site.fingerprint = "f"
    site.build()
    assert len(news.pulls) == 9


def test_a_touched_section_is_planned_anew_and_parts_whose_versions_stand_are_kept(site, news):
    site.build()
    site.tokens = {"news": "token"}
    site.build()
    assert [past.is_touched for past in news.pasts] == [False, True]
    assert len(news.pulls) == 3


def test_what_the_last_set_knows_is_told_to_the_plan(site, news):
    news.memo = "memo"
    site.build()
    site.build()
    past = news.pasts[1]
    assert [(part.key, part.version, part.count) for part in past.parts] == [
        ("october", "1", 5), ("november", "1", 5), ("december", "1", 5),
    ]  # fmt: skip
    assert [part.length for part in past.parts] == [
        shard.document.length for shard in site.snapshot.sections["news"].shards if shard.document
    ]
    assert (past.memo, past.now, past.urls) == ("memo", site.clock.now, 8)


def test_a_part_that_comes_back_empty_has_no_sitemap_and_its_version_stands(site, news):
    news.parts["november"] = []
    site.build()
    assert [shard.number for shard in site.snapshot.sections["news"].listed] == [1, 2]
    assert site.front() == ["/sitemap-news-1.xml", "/sitemap-news-2.xml"]
    site.build()
    assert len(news.pulls) == 3
    assert Archive(site.archive.store, "site").latest(None) == site.snapshot


def test_a_new_part_gets_a_new_number_wherever_it_stands_and_one_that_is_gone_is_answered_for_the_grace(site, news):
    site.build()
    news.parts = {"september": ["/s"], "october": news.parts["october"], "december": news.parts["december"]}
    news.versions["september"] = "1"
    site.build()
    assert site.numbers("news") == [4, 1, 3]
    assert site.snapshot.shard("news", 2) is not None
    site.clock.now += DAY
    site.build()
    assert site.snapshot.shard("news", 2) is None


def test_a_part_that_outgrows_a_sitemap_is_cut_and_then_stays_so(site, news):
    site.build()
    news.parts["november"] = numbered(20, start=100)
    news.versions["november"] = "2"
    site.build()
    numbers = site.numbers("news")
    assert (numbers[0], numbers[-1]) == (1, 3)
    assert len(numbers) > 4
    assert 2 not in numbers
    assert site.listed("news") == [*numbered(5), *numbered(20, start=100), *numbered(5, start=10)]
    news.parts["november"].insert(0, "/first")
    news.versions["november"] = "3"
    site.build()
    assert len({*site.numbers("news")} - {*numbers}) <= 2  # cut where the entries say so, whatever stands before them


def test_in_memory_numbers_are_positions(news):
    site = Site(MemoryStore(1_000_000), news, always_index=True)
    site.build()
    news.parts = {"september": ["/s"], **news.parts}
    site.build()
    assert site.numbers("news") == [1, 2, 3, 4]
    assert news.pulls[3:] == ["september"]


def test_problems_of_parts_that_stand_are_not_forgotten(site, news):
    news.parts["october"].append("/a#b")
    news.parts["december"].append("/c#d")
    site.build()
    assert site.snapshot.sections["news"].problems == {"loc-fragment": [2, "'/a#b'"]}
    news.parts["october"].pop()
    news.versions["october"] = "2"
    site.build()
    assert site.snapshot.sections["news"].problems == {"loc-fragment": [1, "'/c#d'"]}
    del news.parts["december"]
    site.build()
    assert site.snapshot.sections["news"].problems == {}


def test_only_a_part_that_lost_a_piece_is_read_again_after_damage(site, news):
    before = site.build()
    shard = before.sections["news"].shards[1]
    assert shard.document is not None
    site.archive.delete_blob(shard.document.pieces[0][0])
    after = site.build(damaged=True)
    assert news.pulls[3:] == ["november"]
    assert after.sections["news"].shards == before.sections["news"].shards
    assert site.listed("news") == numbered(15)


# What is left for later


def test_a_first_build_that_runs_out_of_time_lists_what_it_has_not_read(site, news):
    news.before_batch = lambda key: site.pass_time(1)
    site.build(budget=2.0)
    assert news.pulls == ["october"]
    assert site.front() == [f"/sitemap-news-{number}.xml" for number in (1, 2, 3)]
    assert [shard.is_unbuilt for shard in site.snapshot.sections["news"].shards] == [False, True, True]
    assert not site.snapshot.is_complete
    assert Archive(site.archive.store, "site").latest(None) == site.snapshot


def test_what_was_only_planned_is_read_by_the_next_build_under_its_number(site, news):
    news.before_batch = lambda key: site.pass_time(1)
    planned_at = site.build(budget=0.0).built_at
    site.build(budget=1.0, completing=True)
    assert news.pulls == ["october", "november"]
    site.build(budget=1.0, completing=True)
    assert news.pulls == ["october", "november", "december"]
    assert site.numbers("news") == [1, 2, 3]
    assert site.listed("news") == numbered(15)
    assert site.snapshot.is_complete
    assert site.snapshot.built_at == planned_at  # what was read first is as old as that
    assert len(news.pasts) == 1


def test_completing_leaves_other_sections_alone(store, news):
    blog = ListSource("blog", "/blog")
    site = Site(store, blog, news, always_index=True)
    news.before_batch = lambda key: site.pass_time(1)
    site.build(budget=1.0)
    site.build(completing=True)
    assert blog.pulls == 1
    assert site.snapshot.is_complete


def test_a_part_that_was_only_planned_and_is_gone_or_empty_has_no_sitemap(site, news):
    news.before_batch = lambda key: site.pass_time(1)
    site.build(budget=0.0)
    news.parts["november"] = []
    site.build(completing=True)
    assert site.front() == ["/sitemap-news-1.xml", "/sitemap-news-3.xml"]
    assert site.snapshot.shard("news", 2) is None


def test_a_part_that_changed_but_was_not_reached_keeps_its_old_entries_and_memo(site, news):
    news.memo = "first"
    site.build()
    news.memo = "second"
    news.versions = dict.fromkeys(news.parts, "2")
    news.parts["october"].append("/o")
    news.parts["december"].append("/d")
    news.before_batch = lambda key: site.pass_time(1)
    site.build(budget=2.0)
    assert site.listed("news") == [*numbered(5), "/o", *numbered(10, start=5)]
    assert not site.snapshot.is_complete
    assert not site.snapshot.unbuilt
    site.build()
    assert news.pasts[-1].memo == "first"
    assert site.listed("news") == [*numbered(5), "/o", *numbered(10, start=5), "/d"]
    assert site.snapshot.is_complete
    assert news.pulls[3:] == ["october", "november", "december"]


def test_only_the_sections_that_are_wanted_are_read(store, news):
    blog = ListSource("blog", "/blog")
    site = Site(store, blog, news, always_index=True)
    site.build()
    blog.items.append("/more")
    news.versions["october"] = "2"
    site.build(only={"news"})
    assert (blog.pulls, news.pulls[3:]) == (1, ["october"])
    site.sources.append(ListSource("new", "/new"))
    site.build(only={"news"})
    assert site.listed("new") == ["/new"]  # of which there is nothing to keep


def test_a_part_larger_than_planned_is_cut_also_when_it_is_completed(site, news):
    news.before_batch = lambda key: site.pass_time(1)
    site.build(budget=0.0)
    news.parts["december"] = numbered(30, start=50)
    site.rules = replace(site.rules, limits=Limits(8))
    site.build(completing=True)
    assert site.listed("news") == [*numbered(10), *numbered(30, start=50)]
