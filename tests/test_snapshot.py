"""How a set is written down, found again, and survives what happens to a store."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flask_sitemapx.errors import Damaged, StoreError
from flask_sitemapx.snapshots.directory import DirectoryStore
from flask_sitemapx.snapshots.memory import MemoryStore
from flask_sitemapx.snapshots.snapshot import (
    BLANK,
    SHARDS_PER_PAGE,
    Archive,
    Document,
    FeedState,
    SectionState,
    Shard,
    Snapshot,
    page_hashes,
    sha256,
)


class CountingStore(MemoryStore):
    """Memory that several archives share as if they were processes, and that counts what is put."""

    shared = True

    def __init__(self) -> None:
        super().__init__(100_000_000)
        self.puts: list[str] = []
        self.gets: list[str] = []

    def put(self, key: str, value: bytes) -> None:
        self.puts.append(key)
        super().put(key, value)

    def get(self, key: str) -> bytes | None:
        self.gets.append(key)
        return super().get(key)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def archive(store) -> Archive:
    return Archive(store, "site")


def document(name: str = "a", **values: Any) -> Document:
    digest = sha256(name.encode())
    given = {"entries": 3, "length": 300, "origins": 0, "entries_hash": digest, "lastmod": None, "changed_at": None}
    given |= {"head": 1, "text_length": 90}
    return Document(**{**given, "gzip_etag": digest[:32], "stored": f"{digest}:100 {digest[::-1]}:20", **values})


def shard(number: int, document: Document | None, start: str = "", end: str = "") -> Shard:
    return Shard(number, "", start, end, "v", 7.0, document)


def section(*names: str, **values: Any) -> SectionState:
    cuts = ["", *names[1:], ""]
    shards = tuple(shard(at + 1, document(name), cuts[at], cuts[at + 1]) for at, name in enumerate(names))
    return SectionState(shards=shards, pages=page_hashes(shards), next_number=len(names) + 1, **values)


def snapshot(number: int, **sections: SectionState) -> Snapshot:
    front = document("front", changed_at="2027-01-01")
    feeds = {"blog": FeedState("k", document("feed"))}
    return Snapshot(number, 1000.5, "print", front, True, sections, (), feeds, {"ff": 2.5}, 1.5)


def manifest(number: int) -> str:
    return f"state/site.manifest.{number}"


def test_what_was_published_is_read_by_another_process(store, archive):
    retired = ((shard(9, document("r"), "x", "y"), 2000.0),)
    faults = {"": {"loc-fragment": [1, "'/a#b'"]}}
    blog = section("a", "b", rule="r", memo="m", token="t", read_at=7.0, retired=retired, faults=faults)
    published = snapshot(1, blog=blog, shop=section("c", error="OSError: x", failures=3), empty=section())
    assert archive.publish(published)
    assert Archive(store, "site").latest(None) == published
    assert Archive(store, "other").latest(None) is None


def test_the_known_snapshot_comes_back_itself_at_two_looks(store, archive):
    archive.publish(snapshot(1))
    known = archive.latest(None)
    store.gets.clear()
    assert archive.latest(known) is known
    assert store.gets == ["state/site.head", manifest(2)]


def test_a_number_is_published_once(store, archive):
    assert archive.publish(snapshot(1, blog=section("a")))
    other = Archive(store, "site")
    assert not other.publish(snapshot(1, blog=section("b")))
    assert archive.latest(None) == snapshot(1, blog=section("a"))


def test_a_head_that_is_behind_is_caught_up_with(store, archive):
    for number in (1, 2, 3):
        archive.publish(snapshot(number))
    store.put("state/site.head", b"1")
    latest = Archive(store, "site").latest(None)
    assert latest is not None
    assert latest.number == 3
    assert archive.latest(latest) is latest


def test_documents_are_found_by_published_number_also_retired_ones():
    retired = ((shard(1, document("old")), 2000.0), (shard(2, document("older")), 2000.0))
    found = snapshot(1, blog=replace(section("a"), retired=retired))
    assert found.shard("blog", 1) == shard(1, document("a"))
    assert found.shard("blog", 2) == shard(2, document("older"))
    assert found.shard("blog", 3) is None
    assert found.shard("shop", 1) is None


def test_what_a_snapshot_needs_are_its_pieces_and_pages():
    blog = replace(section("a"), retired=((shard(2, document("old")), 2000.0),))
    digests = [sha256(name) for name in (b"a", b"old", b"front", b"feed")]
    assert snapshot(1, blog=blog).blobs() == {*digests, *(digest[::-1] for digest in digests), *blog.pages}


def test_a_summary_is_plain_values():
    blog = section("a", "b", faults={"": {"priority": [2, "7"]}})
    summary = snapshot(4, blog=blog, shop=section("c", error="OSError: x", failures=2)).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["number"] == 4
    assert summary["count"] == 9
    assert summary["built_at"] == "1970-01-01T00:16:40+00:00"
    assert summary["sections"]["blog"] == {
        "count": 6,
        "shards": [
            {"number": n, "path": f"/sitemap-blog-{n}.xml", "count": 3, "bytes": 300, "changed_at": at, "etag": tag}
            for n, at, tag in ((n, document(name).changed_at, document(name).etag) for n, name in ((1, "a"), (2, "b")))
        ],
        "problems": {"priority": [2, "7"]},
        "error": None,
    }
    assert summary["sections"]["shop"]["error"] == "OSError: x"


# Pages


def test_one_change_among_2500_shards_writes_one_page_and_the_root(store, archive):
    names = [f"shard {number}" for number in range(2_500)]
    archive.publish(snapshot(1, blog=section(*names)))
    assert len([key for key in store.puts if key.startswith("blobs/")]) == 3
    other = Archive(store, "site")
    known = other.latest(None)
    assert known is not None
    store.puts.clear()
    shards = list(known.sections["blog"].shards)
    shards[SHARDS_PER_PAGE + 5] = shards[SHARDS_PER_PAGE + 5]._replace(document=document("edited"))
    changed = replace(known.sections["blog"], shards=tuple(shards), pages=page_hashes(tuple(shards)))
    store.gets.clear()
    assert other.publish(replace(known, number=2, sections={"blog": changed}))
    assert store.puts == [f"blobs/site/{changed.pages[1][:2]}/{changed.pages[1]}", "state/site.head"]
    assert archive.latest(None) == replace(known, number=2, sections={"blog": changed})
    assert [key for key in store.gets if key.startswith("blobs/")] == [store.puts[0]]


def test_after_damage_no_page_is_taken_to_be_in_the_store(store, archive):
    archive.publish(snapshot(1, blog=section("a")))
    store.delete(store.puts[0])
    with pytest.raises(Damaged):
        archive.blob(sha256(b"a"))
    archive.publish(snapshot(2, blog=section("a")))
    assert Archive(store, "site").latest(None) == snapshot(2, blog=section("a"))


# Damage


def test_a_blob_is_given_only_whole(store, archive):
    archive.put_blob(sha256(b"whole"), b"whole")
    assert archive.blob(sha256(b"whole")) == b"whole"
    assert list(archive.blob_names()) == [sha256(b"whole")]
    archive.put_blob(sha256(b"whole"), b"whol")
    with pytest.raises(Damaged, match=f"{sha256(b'whole')} is damaged"):
        archive.blob(sha256(b"whole"))
    archive.delete_blob(sha256(b"whole"))
    with pytest.raises(Damaged, match="is missing"):
        archive.blob(sha256(b"whole"))


def other_format(root: bytes) -> bytes:
    body = json.dumps({**json.loads(root.partition(b"\n")[2]), "format": 99}).encode()
    return sha256(body).encode() + b"\n" + body


def rewritten(root: bytes) -> bytes:
    body = json.dumps({**json.loads(root.partition(b"\n")[2]), "sections": {"blog": {"pages": []}}}).encode()
    return sha256(body).encode() + b"\n" + body


damages = pytest.mark.parametrize(
    "damage",
    [lambda root: root[:-1], lambda root: b"\x00" * len(root), other_format, rewritten, lambda root: None],
    ids=["cut", "zeros", "format", "fields", "gone"],
)


@damages
def test_a_manifest_that_cannot_be_read_is_blank_under_its_number(store, archive, damage, caplog):
    archive.publish(snapshot(1, blog=section("a")))
    replaced(store, damage)
    blank = Archive(store, "site").latest(None)
    assert blank == replace(BLANK, number=1)
    assert "sitemap: manifest 1 cannot be used" in caplog.text
    assert Archive(store, "site").publish(snapshot(2))


def replaced(store, damage) -> None:
    damaged = damage(store.get(manifest(1)))
    store.delete(manifest(1))
    if damaged is not None:
        store.put(manifest(1), damaged)


def test_who_knows_the_set_before_goes_on_with_it_under_the_new_number(store, archive):
    archive.publish(snapshot(1, blog=section("a")))
    known = archive.latest(None)
    store.put(manifest(2), b"rubbish")
    assert archive.latest(known) == replace(known, number=2, built_at=0.0)


def test_a_page_that_is_missing_makes_the_manifest_unreadable(store, archive):
    archive.publish(snapshot(1, blog=section("a")))
    store.delete(store.puts[0])
    assert Archive(store, "site").latest(None) == replace(BLANK, number=1)


def test_a_store_that_fails_is_no_damage(store, archive, monkeypatch):
    archive.publish(snapshot(1, blog=section("a")))
    get = store.get

    def failing(key):
        if key.startswith("blobs/"):
            raise StoreError("no connection")
        return get(key)

    monkeypatch.setattr(store, "get", failing)
    with pytest.raises(StoreError, match="no connection"):
        Archive(store, "site").latest(None)


@pytest.mark.parametrize("head", [b"", b"\x00\x00", b"x"])
def test_a_head_that_is_damaged_is_found_again(tmp_path, head):
    store = DirectoryStore(tmp_path)
    archive = Archive(store, "site")
    for number in range(1, 13):
        archive.publish(snapshot(number))
        archive.remove_superseded(number)
    store.put("state/site.head", head)
    store.put("state/another-site.manifest.77", b"x")
    latest = Archive(store, "site").latest(None)
    assert latest is not None
    assert latest.number == 12


def test_an_emptied_store_has_no_snapshot_and_then_another_process_s(store, archive):
    for number in (1, 2, 3):
        archive.publish(snapshot(number))
    known = archive.latest(None)
    emptied = CountingStore()
    archive.store = emptied
    assert archive.latest(known) is None
    Archive(emptied, "site").publish(snapshot(1, blog=section("b")))
    assert archive.latest(known) == snapshot(1, blog=section("b"))


def test_a_snapshot_that_was_superseded_during_the_look_is_no_loss(store, archive, monkeypatch):
    archive.publish(snapshot(1))
    late = Archive(store, "site")
    get = store.get

    def overtaken(key):
        value = get(key)
        if key == "state/site.head":
            monkeypatch.setattr(store, "get", get)
            for number in (2, 3, 4):
                archive.publish(snapshot(number))
                archive.remove_superseded(number)
        return value

    monkeypatch.setattr(store, "get", overtaken)
    latest = late.latest(None)
    assert latest is not None
    assert latest.number == 4


# What is removed


def test_the_last_two_manifests_are_kept_and_older_ones_removed_even_those_forgotten(store, archive):
    for number in range(1, 8):
        archive.publish(snapshot(number))
    archive.remove_superseded(7)
    assert [number for number in range(1, 8) if store.get(manifest(number))] == [6, 7]


def test_who_is_killed_while_it_removes_manifests_leaves_none_for_ever(store, archive, monkeypatch):
    for number in range(1, 8):
        archive.publish(snapshot(number))
    deleted: list[str] = []

    def delete(key: str) -> None:
        if len(deleted) > 5:
            raise KeyboardInterrupt
        deleted.append(key)
        MemoryStore.delete(store, key)

    monkeypatch.setattr(store, "delete", delete)
    with pytest.raises(KeyboardInterrupt):
        archive.remove_superseded(7)
    assert [number for number in range(1, 8) if store.get(manifest(number))] == [3, 4, 5, 6, 7]
    monkeypatch.undo()
    archive.publish(snapshot(8))
    archive.remove_superseded(8)
    assert [number for number in range(1, 9) if store.get(manifest(number))] == [7, 8]


def test_the_lease_of_a_published_number_is_removed(store, archive):
    store.put(archive.lease_key(1), b"of a builder that died after publishing")
    archive.publish(snapshot(1))
    archive.remove_superseded(1)
    assert list(store.names("state/site.lease")) == []


def test_a_lease_in_memory_belongs_to_a_process(monkeypatch):
    archive = Archive(MemoryStore(1_000), "site")
    key = archive.lease_key(1)
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert archive.lease_key(1) != key


def test_a_lease_in_a_shared_store_belongs_to_all(archive, monkeypatch):
    key = archive.lease_key(1)
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert archive.lease_key(1) == key
