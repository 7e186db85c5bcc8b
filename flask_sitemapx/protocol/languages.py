"""Language codes as `hreflang` has them: BCP 47, as far as Google reads it."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import InvalidEntry

X_DEFAULT = "x-default"
"""What stands for languages that no version is in."""

# ISO 639-1, the languages that have a code of two letters.
_LANGUAGES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
    es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg
    ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn
    no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta
    te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""

# ISO 3166-1 alpha-2, the countries and territories.
_REGIONS = """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC
    CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD
    GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH
    KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW
    MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC
    SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY
    UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""

LANGUAGES = frozenset(_LANGUAGES.split())
REGIONS = frozenset(_REGIONS.split())

_CODE = re.compile(r"([a-z]{2})(?:-([a-z]{4}))?(?:-([a-z]{2}))?", re.IGNORECASE | re.ASCII)
_MEANT = {"UK": "GB", "EN": "GB"}


def hreflang(text: object) -> str:
    """The code *text* in its usual case: ``de``, ``en-GB``, ``zh-Hant``, ``zh-Hans-US``, or ``x-default``.

    Google, "Localized versions": a language of ISO 639-1, then, if wanted, a script of ISO 15924 and a country of
    ISO 3166-1. Raises `InvalidEntry` for anything else.
    """
    if not isinstance(text, str):
        raise InvalidEntry("hreflang", text, "a language code is a text such as 'de' or 'en-GB'")
    return _checked(text)


@lru_cache(maxsize=1_024)
def _checked(text: str) -> str:
    if text.lower() == X_DEFAULT:
        return X_DEFAULT
    found = _CODE.fullmatch(text)
    if found is None:
        raise InvalidEntry("hreflang", text, f"a language code is like 'de', 'en-GB' or 'zh-Hant'{_hint(text)}")
    language, script, region = found.groups()
    if language.lower() not in LANGUAGES:
        raise InvalidEntry("hreflang", text, f"{language!r} is no language of ISO 639-1{_country_hint(language)}")
    if region is not None and region.upper() not in REGIONS:
        hint = f"; write {_meant(text)!r}" if region.upper() in _MEANT else ""
        raise InvalidEntry("hreflang", text, f"{region!r} is no country of ISO 3166-1{hint}")
    parts = [language.lower(), script and script.title(), region and region.upper()]
    return "-".join(part for part in parts if part)


def _hint(text: str) -> str:
    if "_" in text and _CODE.fullmatch(text.replace("_", "-")):
        return f"; write {_meant(text.replace('_', '-'))!r}"
    if re.fullmatch(r"[a-z]{2}[-_][0-9]{3}", text, re.IGNORECASE | re.ASCII):
        return "; regions larger than a country are not read"
    return ""


def _meant(code: str) -> str:
    rest, _, region = code.rpartition("-")
    return f"{rest}-{_MEANT.get(region.upper(), region)}"


def _country_hint(language: str) -> str:
    return "; a country alone says nothing of the language" if language.upper() in REGIONS else ""
