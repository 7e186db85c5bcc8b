"""A build: what is pulled, what is carried over, which numbers shards get, what is kept and what is removed."""

from __future__ import annotations

import contextvars
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import ANY

import pytest
from lxml import etree

from flask_sitemapx import Namespace, News
from flask_sitemapx.errors import BuildFailed, Damaged, StoreError
from flask_sitemapx.protocol.entries import Columns
from flask_sitemapx.snapshots.builder import REPLACED_SECONDS, REPLACED_SECONDS_IN_MEMORY, Builder
from flask_sitemapx.snapshots.compression import zlib_codec
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.shards import Limits
from flask_sitemapx.snapshots.snapshot import BLANK, Archive
from tests.section_sources import BASE, DATE, NOW, ListSource, Site, numbered, paths


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


@pytest.fixture
def blog() -> ListSource:
    return ListSource("blog", *numbered(3), version="1")


@pytest.fixture
def site(store, blog) -> Site:
    return Site(store, blog)


# What is pulled


def test_entries_are_listed_in_order(site):
    site.build()
    assert site.listed("blog") == site.front() == numbered(3)
    assert site.snapshot.count == 3


def test_a_section_without_entries_has_no_shard(store, blog):
    empty = ListSource("empty")
    site = Site(store, empty, blog)
    site.build()
    assert site.numbers("empty") == []
    assert site.front() == numbered(3)
    empty.items = ["/new"]
    site.build()
    assert site.front() == ["/new", *numbered(3)]


def test_a_site_without_entries_has_no_document(store):
    site = Site(store, ListSource("empty"))
    assert site.build().document is None
    assert not site.snapshot.is_index


def test_a_section_is_carried_over_while_its_version_stands(site, blog):
    first = site.build()
    blog.items = ["/unseen"]
    second = site.build()
    assert blog.pulls == 1
    assert second.sections == first.sections
    blog.said = "2"
    site.build()
    assert site.listed("blog") == ["/unseen"]


def test_a_new_section_that_fails_is_left_out_of_a_site_that_has_a_set(store, blog):
    site = Site(store, blog)
    site.build()
    new = ListSource("new", "/new")
    site.sources.append(new)
    blog.items, blog.said = ["/other"], "2"

    def fail() -> None:
        raise OSError("no table")

    new.before_batch = fail
    built = site.build()
    assert site.front() == ["/other"]
    assert built.sections["new"].error == "OSError: no table"
    new.before_batch = lambda: None
    assert site.build().sections["new"].error is None
    assert site.front() == ["/other", "/new"]


def test_an_error_names_its_section_once(store):
    site = Site(store, ListSource("blog", "/a#b"))
    site.rules = replace(site.rules, strict=True)
    with pytest.raises(BuildFailed, match=r"^section 'blog': .*fragment") as caught:
        site.build()
    assert str(caught.value).count("blog") == 1


def test_a_section_that_tells_no_version_is_pulled_each_time(site, blog):
    blog.said = None
    site.build()
    site.build()
    assert blog.pulls == 2


def test_a_touch_has_it_pulled_although_its_version_stands(site, blog):
    site.build()
    site.tokens = {"blog": "token"}
    assert site.build().sections["blog"].token == "token"
    site.build()
    assert blog.pulls == 2


def test_it_is_pulled_when_it_was_read_too_long_ago(site, blog):
    site.rules = replace(site.rules, verify_age=100)
    site.build()
    site.clock.now += 99
    site.build()
    assert blog.pulls == 1
    site.clock.now += 1
    site.build()
    assert blog.pulls == 2
    site.build()
    assert blog.pulls == 2


def test_other_settings_are_another_version(site, blog):
    site.build()
    site.fingerprint = "other"
    site.build()
    assert blog.pulls == 2


def test_problems_are_kept_with_the_section(site, blog, caplog):
    blog.items = ["/a", "/a", "/b#c", "/b"]
    site.build()
    problems = site.build().sections["blog"].problems
    assert {rule: count for rule, (count, _) in problems.items()} == {"duplicate": 1, "loc-fragment": 1}
    assert caplog.text.count("section 'blog': duplicate (1 times, such as") == 1
    assert site.listed("blog") == ["/a", "/b"]


def test_a_section_that_is_gone_is_forgotten(store, blog):
    site = Site(store, blog, ListSource("shop", "/shop"))
    site.build()
    site.sources.pop()
    assert set(site.build().sections) == {"blog"}
    assert site.front() == numbered(3)


# Sources that fail


def failing(source: ListSource, error: BaseException) -> None:
    def fail() -> None:
        raise error

    source.before_batch = fail


def test_a_section_that_fails_keeps_its_last_good_entries_and_says_why(store, blog, caplog):
    shop = ListSource("shop", "/shop", version="1")
    site = Site(store, blog, shop)
    site.build()
    failing(blog, OSError("the database is gone"))
    blog.said, shop.items, shop.said = "2", ["/shop/2"], "2"
    site.tokens = {"blog": "touched"}
    state = site.build().sections["blog"]
    assert site.front() == [*numbered(3), "/shop/2"]
    assert (state.error, state.failures, state.token) == ("OSError: the database is gone", 1, "touched")
    assert "section 'blog' failed" in caplog.text
    assert site.build().failures == 2
    blog.before_batch = lambda: None
    blog.items = ["/again"]
    state = site.build().sections["blog"]
    assert (state.error, state.failures) == (None, 0)
    assert site.front() == ["/again", "/shop/2"]


def test_a_version_that_fails_is_a_section_that_fails(site, blog, monkeypatch):
    site.build()
    monkeypatch.setattr(blog, "version", lambda: 1 / 0)
    assert site.build().sections["blog"].error == "ZeroDivisionError: division by zero"


def test_a_section_that_failed_is_pulled_again_although_its_version_stands(site, blog):
    site.build()
    failing(blog, OSError("x"))
    site.fingerprint = "other"
    site.build()
    blog.before_batch = lambda: None
    site.fingerprint = "f"
    site.build()
    assert blog.pulls == 3


def test_a_section_that_fails_before_it_was_ever_built_fails_the_build(site, blog):
    failing(blog, OSError("the database is gone"))
    with pytest.raises(BuildFailed, match="section 'blog': OSError: the database is gone"):
        site.build()


def test_under_strict_rules_a_section_that_fails_fails_the_build(site, blog):
    site.build()
    site.rules = replace(site.rules, strict=True)
    failing(blog, OSError("the database is gone"))
    blog.said = "2"
    with pytest.raises(BuildFailed, match="section 'blog': OSError"):
        site.build()


def test_under_strict_rules_a_bad_entry_fails_the_build(site, blog):
    site.rules = replace(site.rules, strict=True)
    blog.items = ["/a", "/b#c"]
    with pytest.raises(BuildFailed, match=r"section 'blog'.*'/b#c'") as failed:
        site.build()
    assert str(failed.value).count("section 'blog'") <= 2
    site.rules = replace(site.rules, strict=False)
    site.build()
    assert site.front() == ["/a"]


@pytest.mark.parametrize("error", [StoreError("the disk is full"), BuildFailed("the process is ending")])
def test_what_is_no_fault_of_a_section_ends_the_build(site, blog, error):
    site.build()
    blog.said = "2"
    with pytest.raises(type(error), match=str(error)):
        site.builder.build(site.snapshot, "f", {}, checkpoint=lambda: raised(error))


def raised(error: BaseException) -> None:
    raise error


# The scope of a pull

setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="outside")


class Scope:
    """Records when it is entered and left."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def __call__(self):
        setting.set("inside")
        self.events.append("enter")
        try:
            yield
        finally:
            self.events.append("leave")


class ScopedSource(ListSource):
    def __init__(self, scope: Scope, *items: str) -> None:
        super().__init__("scoped", *items)
        self.scope = scope

    def version(self) -> str | None:
        self.scope.events.append(f"version {setting.get()}")
        return None

    def columns(self):
        self.scope.events.append("begin")
        try:
            yield from super().columns()
        finally:
            self.scope.events.append(f"end {setting.get()}")


@pytest.fixture
def scope() -> Scope:
    return Scope()


def scoped(store, scope, *items) -> tuple[Builder, ScopedSource]:
    source = ScopedSource(scope, *(items or numbered(12)))
    site = Site(store, source)
    return Builder(BASE, site.archive, lambda: [source], lambda: site.rules, zlib_codec(), scope=scope), source


WHOLE = ["enter", "version inside", "begin", "end inside", "leave"]


def test_a_pull_lies_in_one_scope_and_leaks_nothing(store, scope):
    builder, _ = scoped(store, scope)
    builder.build(BLANK, "f", {})
    assert scope.events == WHOLE
    assert setting.get() == "outside"


@pytest.mark.parametrize("after", [0, 1])
def test_the_scope_is_left_once_when_the_source_raises(store, scope, after):
    builder, source = scoped(store, scope)
    calls = iter([None] * after)
    source.before_batch = lambda: next(calls)
    with pytest.raises(BuildFailed):
        builder.build(BLANK, "f", {})
    assert scope.events == WHOLE


@pytest.mark.parametrize("error", [BuildFailed("given up"), KeyboardInterrupt()])
def test_the_scope_is_left_once_when_the_build_is_given_up(store, scope, error):
    builder, _ = scoped(store, scope)
    with pytest.raises(type(error)):
        builder.build(BLANK, "f", {}, checkpoint=lambda: raised(error))
    assert scope.events == WHOLE


def test_the_scope_is_left_once_when_the_store_fails(scope):
    builder, _ = scoped(MemoryStore(10), scope)
    with pytest.raises(StoreError):
        builder.build(BLANK, "f", {})
    assert scope.events == WHOLE


def test_columns_may_be_any_iterator(store):
    source = ListSource("list")
    source.columns = lambda: iter(list(ListSource("x", "/a").columns()))  # type: ignore[method-assign]
    site = Site(store, source)
    site.build()
    assert site.front() == ["/a"]


# Numbers


def test_a_number_once_published_is_never_given_to_other_entries(store):
    blog = ListSource("blog", *numbered(160))
    site = Site(store, blog, urls=32, grace=1_000)
    site.build()
    seen: dict[int, set[str]] = {}
    for step in range(1, 30):
        for shard in site.snapshot.sections["blog"].shards:
            cuts = f"{shard.start}-{shard.end}"
            assert seen.setdefault(shard.number, {cuts}) == {cuts}
        blog.items.insert(step * 7 % len(blog.items), f"/new/{step}")
        if step % 5 == 0:
            del blog.items[: step % 11]
        site.build()
        assert site.listed("blog") == blog.items
        assert len(set(site.numbers("blog"))) == len(site.numbers("blog"))
    assert len(seen) > 12


def test_a_shard_that_splits_gets_two_new_numbers_and_the_old_one_is_served_for_the_grace(store):
    blog = ListSource("blog", *numbered(4))
    site = Site(store, blog, grace=1_000, always_index=True)
    site.build()
    assert site.numbers("blog") == [1]
    old = site.snapshot.sections["blog"].shards[0]
    blog.items[1:1] = numbered(3, start=4)
    site.build()
    assert site.numbers("blog") == [2, 3]
    assert site.front() == ["/sitemap-blog-2.xml", "/sitemap-blog-3.xml"]
    site.clock.now += 999
    site.build()
    assert site.snapshot.shard("blog", 1) == old
    assert old.document is not None
    assert len(paths(site.text(old.document))) == 4
    site.clock.now += 1
    site.build()
    assert site.snapshot.shard("blog", 1) is None
    site.clock.now += REPLACED_SECONDS
    site.build()
    with pytest.raises(Damaged):
        site.text(old.document)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_retired_expires_also_while_a_section_stands_or_fails(store, fails):
    blog = ListSource("blog", *numbered(8))
    site = Site(store, blog, grace=1_000)
    site.build()
    blog.items += numbered(3, start=8)
    blog.said = "2"
    site.build()
    assert len(site.snapshot.sections["blog"].retired) == 1
    site.clock.now += 1_000
    if fails:
        blog.said = "3"
        failing(blog, OSError("x"))
    site.build()
    assert not site.snapshot.sections["blog"].retired
    assert (site.snapshot.failures > 0) is fails


def test_an_edit_changes_one_shard_and_the_index(store):
    blog = ListSource("blog", *((path, "2026-01-01") for path in numbered(40)))
    site = Site(store, blog)
    before = site.build()
    blog.items[20] = (blog.items[20][0], "2026-06-01")
    after = site.build()
    assert site.numbers("blog") == [shard.number for shard in before.sections["blog"].shards]
    pairs = list(zip(before.sections["blog"].shards, after.sections["blog"].shards, strict=True))
    assert [old == new for old, new in pairs].count(False) == 1
    assert before.document != after.document


def test_a_source_that_repeats_itself_keeps_its_numbers_apart(store):
    blog = ListSource("blog", *numbered(40) * 3)
    site = Site(store, blog)
    site.build()
    first = site.numbers("blog")
    cuts = [(shard.start, shard.end) for shard in site.snapshot.sections["blog"].shards]
    assert len(set(cuts)) < len(cuts)
    site.build()
    assert site.numbers("blog") == first


def test_in_memory_numbers_are_positions():
    blog = ListSource("blog", *numbered(30))
    site = Site(MemoryStore(1_000_000), blog)
    for _ in range(5):
        site.build()
        assert site.numbers("blog") == list(range(1, len(site.numbers("blog")) + 1))
        blog.items = blog.items[3:]


# Dates


@pytest.mark.parametrize(
    ("items", "changed_at"),
    [
        ([("/a", date(2026, 1, 1)), ("/b", "2026-05-01")], "2026-05-01"),
        ([("/a", date(2026, 1, 1)), "/b"], None),
        ([("/a", date(2027, 1, 16))], None),
        ([("/a", date(2027, 1, 15))], "2027-01-15"),
    ],
    ids=["all", "not all", "in the future", "today"],
)
@pytest.mark.parametrize("shared", [True, False])
def test_without_a_past_a_document_changed_at_its_latest_lastmod(store, items, changed_at, shared):
    site = Site(store if shared else MemoryStore(100_000), ListSource("blog", *items))
    site.build()
    assert site.document.changed_at == changed_at
    assert site.first("blog").changed_at == changed_at


def test_with_a_past_it_changed_when_that_was_seen(site, blog):
    site.build()
    blog.items, blog.said = [("/a", "2026-01-01")], "2"
    site.clock.now += 3_600
    built = site.build()
    assert site.document.changed_at == site.first("blog").changed_at == "2027-01-15T09:00:00Z"
    site.clock.now += 3_600
    blog.said = "3"
    assert site.build().document == built.document


def test_two_changes_within_a_second_are_two_changes_to_readers_of_the_index(store, blog):
    site = Site(store, blog, always_index=True)
    seen = []
    for number in range(4):
        blog.items, blog.said = [f"/{number}"], str(number)
        site.build()
        seen.append(site.document)
    assert len({document.etag for document in seen}) == 4
    later = [document.changed_at or "" for document in seen[1:]]
    assert later == sorted(set(later))
    assert site.first("blog").changed_at == later[-1]


def test_in_memory_there_is_no_past():
    blog = ListSource("blog", ("/a", "2026-01-01"))
    site = Site(MemoryStore(100_000), blog)
    site.build()
    blog.items = [("/a", "2026-02-01")]
    site.build()
    assert site.document.changed_at == "2026-02-01"


def test_the_index_changed_with_its_youngest_shard_at_first(store):
    site = Site(store, ListSource("a", ("/a", "2026-01-01")), ListSource("b", ("/b", "2026-03-01")), always_index=True)
    built = site.build()
    assert built.is_index
    assert site.document.changed_at == "2026-03-01"
    assert "<lastmod>2026-01-01</lastmod>" in site.text(site.document)


def test_a_new_section_of_an_old_site_has_no_past_but_the_index_has(store):
    site = Site(store, ListSource("a", "/a"), always_index=True)
    site.build()
    site.sources.append(ListSource("b", ("/b", "2026-03-01")))
    site.build()
    assert site.first("b").changed_at == "2026-03-01"
    assert site.document.changed_at == DATE


def test_a_front_that_becomes_the_only_shard_changed_now_although_the_shard_did_not(store):
    site = Site(store, ListSource("a", ("/a", "2026-01-01")), ListSource("b", ("/b", "2026-02-01")))
    site.build()
    site.sources.pop()
    built = site.build()
    assert site.first("a").changed_at == "2026-01-01"
    assert site.document.changed_at == DATE
    assert site.build().document == built.document


# The front


def test_a_small_site_is_one_urlset_without_duplicates_across_sections(store):
    site = Site(store, ListSource("a", "/a", "/both"), ListSource("b", "/both", "/b"))
    built = site.build()
    assert not built.is_index
    assert site.front() == ["/a", "/both", "/b"]
    assert site.document.entries == 3
    assert site.text(site.document).startswith("<?xml")
    assert "<urlset" in site.text(site.document)


def test_a_site_of_one_shard_stores_it_once(site):
    site.build()
    assert site.document.pieces == site.first("blog").pieces


def test_it_is_an_index_beyond_the_limit_and_no_longer_below_half_of_it(store):
    a, b = ListSource("a", *numbered(4)), ListSource("b", *numbered(4, start=4))
    site = Site(store, a, b)
    kinds = []
    for count in (4, 5, 4, 2, 1, 0, 1, 4):
        b.items = numbered(count, start=4)
        kinds.append((4 + count, site.build().is_index))
    assert kinds == [(8, False), (9, True), (8, True), (6, True), (5, True), (4, False), (5, False), (8, False)]


def test_bytes_count_as_well(store):
    site = Site(store, ListSource("a", *numbered(3)), ListSource("b", *numbered(3, start=3)), urls=1_000)
    length = sum(document.length for document in documents(site.build()))
    assert not site.snapshot.is_index
    site.rules = replace(site.rules, limits=Limits(1_000, length - 1))
    assert site.build().is_index
    site.rules = replace(site.rules, limits=Limits(1_000, 2 * length - 1))
    assert site.build().is_index
    site.rules = replace(site.rules, limits=Limits(1_000, 2 * length))
    assert not site.build().is_index


def documents(snapshot):
    return [shard.document for section in snapshot.sections.values() for shard in section.shards]


def test_an_index_that_is_wanted_always_lists_one_shard(store, blog):
    site = Site(store, blog, always_index=True)
    assert site.build().is_index
    assert site.front() == ["/sitemap-blog-1.xml"]


def test_more_sitemaps_than_an_index_holds_are_in_several_indexes(store):
    assert Limits(1).sitemaps == 50_000  # sitemaps.org
    a, b = ListSource("a", *numbered(5)), ListSource("b", *numbered(1, start=5))
    site = Site(store, a, b)
    site.rules = replace(site.rules, limits=Limits(1, sitemaps=2))
    site.build()
    expected = {
        1: ["/sitemap-a-1.xml", "/sitemap-a-2.xml"],
        2: ["/sitemap-a-3.xml", "/sitemap-a-4.xml"],
        3: ["/sitemap-a-5.xml"],
        4: ["/sitemap-b-1.xml"],
    }
    assert indexed(site) == expected
    assert site.front() == expected[1]
    again = Archive(store, "site").latest(None)
    assert again == site.snapshot


def test_a_sitemap_stays_in_its_index_while_others_come_and_go(store):
    a, b = ListSource("a", *numbered(3)), ListSource("b", *numbered(1, start=50))
    site = Site(store, a, b)
    site.rules = replace(site.rules, limits=Limits(1, sitemaps=2))
    site.build()
    before = indexed(site)
    a.items = ["/new", *numbered(4)]
    site.build()
    after = indexed(site)
    assert after[3] == before[3] == ["/sitemap-b-1.xml"]
    places = {path: number for number, listed in before.items() for path in listed}
    assert all(places.get(path, number) == number for number, listed in after.items() for path in listed)
    assert len(places.keys() & {path for listed in after.values() for path in listed}) > 1
    a.items = []
    site.build()
    assert indexed(site) == {}
    assert site.front() == ["/sitemap-b-1.xml"]


def test_only_the_index_of_what_changed_changes(store):
    a, b = ListSource("a", *numbered(4)), ListSource("b", ("/b", "2026-01-01"))
    site = Site(store, a, b)
    site.rules = replace(site.rules, limits=Limits(1, sitemaps=2))
    before = site.build().indexes
    b.items = [("/b", "2026-01-02")]
    site.clock.now += 60
    after = site.build().indexes
    assert [index.document.etag for index in before[:2]] == [index.document.etag for index in after[:2]]
    assert before[2].document.etag != after[2].document.etag


def test_an_index_of_more_bytes_than_allowed_fails_the_build(site):
    site.rules = replace(site.rules, limits=Limits(1, size=300))
    with pytest.raises(BuildFailed, match="an index of 3 sitemaps has 329 bytes, more than the 300"):
        site.build()


def indexed(site: Site) -> dict[int, list[str]]:
    """The paths in each of several indexes."""
    return {index.number: paths(site.text(index.document)) for index in site.snapshot.indexes}


def test_a_merged_front_finds_long_entries_whole(store):
    many = [f"/{'x' * 900}/{number}" for number in range(400)]
    site = Site(store, ListSource("a", *many[:200]), ListSource("b", *many[200:]), urls=1_000)
    assert not site.build().is_index
    assert site.front() == many


# What is removed


def test_blobs_of_builders_that_died_are_removed_and_the_others_kept(site, blog):
    site.build()
    site.archive.put_blob("ab" * 32, b"of a builder that died")
    needed = site.blobs() - {"ab" * 32}
    site.build()
    assert site.blobs() == needed


def test_blobs_that_were_replaced_are_kept_for_responses_under_way(site, blog):
    site.build()
    first = site.blobs()
    blog.items, blog.said = ["/new"], "2"
    site.build()
    site.clock.now += REPLACED_SECONDS - 1
    site.build()
    assert first < site.blobs()
    site.clock.now += 1
    site.build()
    site.build()
    assert not first & site.blobs()
    assert site.snapshot.garbage == {}
    assert site.front() == ["/new"]


def test_a_clock_that_jumped_back_keeps_nothing_for_ever(site, blog):
    site.build()
    first = site.blobs()
    blog.items, blog.said = ["/new"], "2"
    site.clock.now += 1_000_000
    site.build()
    site.clock.now -= 1_000_000
    site.build()
    site.build()
    assert not first & site.blobs()


def test_in_memory_what_was_replaced_is_kept_for_a_short_time_only(blog):
    site = Site(MemoryStore(100_000), blog)
    site.build()
    first = site.blobs()
    blog.items, blog.said = ["/new"], "2"
    site.build()
    site.clock.now += REPLACED_SECONDS_IN_MEMORY - 1
    site.build()
    assert first & site.blobs()
    site.clock.now += 1
    site.build()
    site.build()
    assert not first & site.blobs()


def test_what_comes_back_is_no_garbage(site, blog):
    site.build()
    first = site.blobs()
    old, blog.items, blog.said = blog.items, ["/new"], "2"
    site.build()
    blog.items, blog.said = old, "3"
    site.build()
    site.clock.now += REPLACED_SECONDS
    site.build()
    site.build()
    assert site.front() == numbered(3)
    assert {digest for digest, _ in site.document.pieces} <= first


def test_only_who_may_removes(site):
    site.build()
    site.archive.put_blob("ab" * 32, b"x")
    site.archive.put_blob("cd" * 32, b"x")
    asked = iter([True, False])
    site.builder.remove_leftovers(site.snapshot, lambda: next(asked))
    assert len({"ab" * 32, "cd" * 32} & site.blobs()) == 1


def test_who_does_not_know_what_is_needed_removes_nothing(site):
    site.build()
    blobs = site.blobs()
    site.builder.remove_leftovers(replace(BLANK, number=1), lambda: True)
    assert site.blobs() == blobs


def test_a_cold_builder_removes_what_another_left(site):
    site.archive.put_blob("ab" * 32, b"of a builder that died")
    site.builder.remove_leftovers(BLANK, lambda: True)
    assert site.blobs() == set()


# Damage


def test_after_damage_all_is_stored_again_and_keeps_its_dates(store):
    site = Site(store, ListSource("a", *numbered(20), version="1"), always_index=True)
    before = site.build()
    for digest in site.blobs():
        site.archive.delete_blob(digest)
    site.clock.now += 5_000
    with pytest.raises(Damaged):
        site.archive.blob(site.document.pieces[0][0])
    after = site.build(damaged=True)
    assert documents(after) == documents(before)
    assert after.document == before.document
    assert site.listed("a") == numbered(20)
    again = Archive(store, "site").latest(None)
    assert again == after


def test_a_document_that_is_missing_when_others_are_merged_with_it_is_damage(store):
    a, b = ListSource("a", "/a", version="1"), ListSource("b", "/b", version="1")
    site = Site(store, a, b)
    site.build()
    site.archive.delete_blob(site.first("b").pieces[0][0])
    a.items, a.said = ["/a2"], "2"
    with pytest.raises(Damaged):
        site.build()
    site.build(damaged=True)
    assert site.front() == ["/a2", "/b"]


def test_the_number_follows_that_of_the_set_before(site):
    assert site.builder.build(replace(BLANK, number=41), "f", {}).number == 42


# Memory


class Endless(ListSource):
    """A section that holds none of its entries."""

    def __init__(self, count: int) -> None:
        super().__init__("endless")
        self.count = count

    def columns(self):
        for start in range(0, self.count, 512):
            yield Columns([f"/{'x' * 80}/{number}" for number in range(start, min(start + 512, self.count))])


def peak(directory: Path, count: int) -> int:
    """Most bytes that Python held at a time for a build of *count* entries."""
    site = Site(DirectoryStore(directory), Endless(count), urls=1_000)
    tracemalloc.start()
    try:
        site.build()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_build_takes_no_more_memory_for_more_entries(tmp_path):
    peak(tmp_path / "first", 5_000)  # what is loaded and cached at the first use
    small, large = peak(tmp_path / "small", 5_000), peak(tmp_path / "large", 50_000)
    # The XML grows by 6 MB; what may grow is what is known of each document, 2 or 3 KB for each of 70 to 100.
    assert large - small < 400_000


# News


class NewsSource(ListSource):
    """Articles with their time of publication, in the order of the items."""

    def columns(self):
        for columns in super().columns():
            news = [News("Times", "en", lastmod, "Found") for lastmod in columns.lastmods or ()]
            yield replace(columns, lastmods=None, extras={"news": news})


def test_news_leave_by_themselves_though_the_version_of_their_section_stands(store):
    hour = 3_600.0
    items = [("/old", datetime.fromtimestamp(NOW - 47 * hour, UTC)), ("/new", datetime.fromtimestamp(NOW, UTC))]
    source = NewsSource("news", *items, version="1")
    site = Site(store, source, always_index=True)
    assert site.build().expires_at == NOW + hour
    assert site.text(site.first("news")).count("<news:news>") == 2
    site.pass_time(hour - 1)
    site.build()
    assert source.pulls == 1
    site.pass_time(1)
    assert site.build().expires_at == NOW + 48 * hour
    assert source.pulls == 2
    assert site.text(site.first("news")).count("<news:news>") == 1
    assert site.listed("news") == ["/old", "/new"]


def test_expired_news_are_counted_and_no_warning(store, caplog):
    source = NewsSource("news", ("/old", datetime.fromtimestamp(NOW - 1e6, UTC)))
    site = Site(store, source)
    assert site.build().sections["news"].problems == {"news-expired": [1, ANY]}
    assert not caplog.records
    assert site.build().expires_at == float("inf")


def test_documents_with_many_news_are_not_merged(store):
    items = [(f"/{number}", datetime.fromtimestamp(NOW, UTC)) for number in range(600)]
    sources = [NewsSource("one", *items), NewsSource("two", *[(f"/two{path}", date) for path, date in items])]
    site = Site(store, *sources, urls=10_000)
    assert site.build().is_index


def test_sections_in_which_a_prefix_stands_for_two_namespaces_are_not_merged(store):
    class Elements(ListSource):
        def columns(self):
            for columns in super().columns():
                element = Namespace("x", f"urn:{self.name}").element("x")
                yield replace(columns, extras={"elements": [element] * len(columns.locs)})

    assert Site(store, Elements("a", "/a"), Elements("b", "/b"), urls=100).build().is_index
    memory = MemoryStore(1_000_000)
    assert not Site(memory, Elements("a", "/a"), ListSource("b", "/b"), urls=100).build().is_index


def test_a_merged_document_declares_what_its_sections_use(store):
    class Pictures(ListSource):
        def columns(self):
            for columns in super().columns():
                yield replace(columns, extras={"images": [["/x.jpg"]] * len(columns.locs)})

    site = Site(store, ListSource("a", "/a"), Pictures("b", "/b"), urls=100)
    site.build()
    text = site.text(site.document)
    assert text.count("xmlns:image") == 1
    assert len(etree.fromstring(text.encode())) == 2
