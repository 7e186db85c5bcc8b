from __future__ import annotations

import pytest

from flask_sitemapx.errors import InvalidEntry
from flask_sitemapx.protocol.languages import LANGUAGES, REGIONS, hreflang


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("en-gb", "en-GB"),
        ("EN-GB", "en-GB"),
        ("zh-hant", "zh-Hant"),
        ("zh-Hans-us", "zh-Hans-US"),
        ("be", "be"),
        ("x-default", "x-default"),
        ("X-Default", "x-default"),
    ],
)
def test_a_code_is_given_back_in_its_usual_case(text, code):
    assert hreflang(text) == code


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("en_GB", "write 'en-GB'"),
        ("en-UK", "write 'en-GB'"),
        ("en_UK", "write 'en-GB'"),
        ("zh-Hant-UK", "write 'zh-Hant-GB'"),
        ("es-419", "larger than a country"),
        ("es_419", "larger than a country"),
        ("jp", "a country alone says nothing of the language"),
        ("us", "a country alone"),
        ("xx", "is no language of ISO 639-1"),
        ("en-ZZ", "is no country of ISO 3166-1"),
        ("eng", "is like 'de'"),
        ("de-AT-1996", "is like 'de'"),
        ("", "is like 'de'"),
        (" de", "is like 'de'"),
        ("de\n", "is like 'de'"),
        ("\uff44\uff45", "is like 'de'"),
        ('de"/>', "is like 'de'"),
        (None, "is a text"),
        (7, "is a text"),
    ],
)
def test_what_is_not_read_is_refused_with_a_hint(text, hint):
    with pytest.raises(InvalidEntry, match=hint) as caught:
        hreflang(text)
    assert caught.value.rule == "hreflang"


def test_the_lists_have_as_many_codes_as_the_standards():
    assert len(REGIONS) == 249
    assert len(LANGUAGES) == 183 + 1  # with bh, which ISO 639-1 had until 2021
