"""Tokens, the second address, and a bucket: what is accepted, and what is refused at the start."""

from __future__ import annotations

import pytest

from flask_sitemapx.errors import ConfigurationError
from flask_sitemapx.service.access import Access, Bucket
from tests.test_operations import TOKENS, Clock


@pytest.mark.parametrize("token", ["short", "fifteen-letters", "with blanks in the middle", "ümlaut-of-20-letters"])
@pytest.mark.parametrize("name", [*TOKENS])
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused_and_not_repeated(name, token):
    with pytest.raises(ConfigurationError, match=f"{name} must be 16 characters or more") as caught:
        Access.of({name: token})
    assert token not in str(caught.value)


@pytest.mark.parametrize("bind", ["9100", ":9100", "localhost", "127.0.0.1:0", "127.0.0.1:65536", "a:b"])
def test_a_second_address_that_is_none_is_refused(bind):
    with pytest.raises(ConfigurationError, match=r"SITEMAP_ADMIN_BIND must be like 127\.0\.0\.1:9100"):
        Access.of({"SITEMAP_ADMIN_BIND": bind})


def test_where_nothing_is_set_nobody_may_ask():
    access = Access.of({})
    assert not access.is_touchable
    for given in ({}, {"HTTP_AUTHORIZATION": "Bearer "}, {"HTTP_AUTHORIZATION": "Bearer"}):
        assert not access.may_look(given)
        assert not access.may_touch(given)


def test_blanks_around_a_token_are_no_part_of_it():
    access = Access.of({"SITEMAP_TOUCH_TOKEN": " a-token-of-20-letters\n"})
    assert access.may_touch({"HTTP_AUTHORIZATION": "Bearer a-token-of-20-letters"})


def test_no_token_is_printed_with_what_holds_it():
    access = Access.of(TOKENS)
    assert not any(token in f"{access!r} {access}" for token in TOKENS.values())


def test_a_bucket_never_holds_more_than_at_first():
    clock = Clock()
    bucket = Bucket(2, 1, clock)
    clock.now = 1000.0
    assert [bucket.take() for _ in range(3)] == [True, True, False]
