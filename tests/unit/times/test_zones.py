"""Zone names: one answer on every machine."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
import zoneinfo
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from anarchon.errors import InvalidTimezoneError
from anarchon.times import zones
from anarchon.times.zones import AnarchonWarning, Shift, local_zone, tz_database_version, zone

ROOT = Path(__file__).parents[3]

REFUSED = [
    "", " ", "UTC ", " UTC", "Europe/Berlin\n", "Europe/Berlin\0", "Europe", "Europe/", "America/Argentina", "Etc",
    "/etc/localtime", "/usr/share/zoneinfo/UTC", "../UTC", "Europe/../UTC", "./UTC", "Europe//Berlin", "localtime",
    "posixrules", "Factory", "factory", "posix/UTC", "posix/Europe/Berlin", "right/UTC", "right/Europe/Berlin",
    "UTC+2", "UTC-02:00", "GMT+2", "+02:00", "Z", "CEST", "CET-1CEST", "Etc/GMT+15", "Berlin", "Europe/Berln",
    "zone.tab", "tzdata.zi", "leapseconds", "A" * 300, "Europe/" + "A" * 5_000, "Asia/\u212aolkata", "Ｕ\uff34Ｃ",
    "Europe\\Berlin", "Europe.Berlin", "America/New York", "__init__", "Europe/__init__.py", "None", "Local ",
]  # fmt: skip

GOOD = [
    ("UTC", "UTC"), ("utc", "UTC"), ("Utc", "UTC"), ("GMT", "GMT"), ("gmt+0", "GMT+0"), ("Zulu", "Zulu"),
    ("Etc/GMT+5", "Etc/GMT+5"), ("etc/gmt-14", "Etc/GMT-14"), ("EST5EDT", "EST5EDT"), ("est", "EST"), ("CET", "CET"),
    ("AMERICA/PORT-AU-PRINCE", "America/Port-au-Prince"), ("us/eastern", "US/Eastern"), ("asia/calcutta",
    "Asia/Calcutta"), ("america/argentina/comodrivadavia", "America/Argentina/ComodRivadavia"), ("nz-chat", "NZ-CHAT"),
    ("antarctica/dumontdurville", "Antarctica/DumontDUrville"), ("w-su", "W-SU"), ("gb-eire", "GB-Eire"),
]  # fmt: skip

NAME_BY_NAME = """
import json, sys
from anarchon.times.zones import zone, tz_database_version
answers = []
for name in json.load(sys.stdin):
    try:
        answers.append(zone(name).name)
    except Exception as error:
        answers.append(type(error).__name__ + ": " + str(error))
print(json.dumps([tz_database_version(), answers]))
"""


def answers_with(names: list[str], **environment: str) -> tuple[str, list[str]]:
    """The database version and the answer for each name, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", NAME_BY_NAME],
        input=json.dumps(names),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    version, answers = json.loads(done.stdout)
    return version, answers


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: ascii(name[:30]))
def test_what_is_not_on_the_list_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimezoneError) as caught:
        zone(name)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [None, 0, 7200, 1.5, True, b"UTC", ["UTC"], zoneinfo.ZoneInfo("UTC"), object()])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidTimezoneError, match="not a name; give") as caught:
        zone(value)

    assert str(caught.value).startswith(f"timezone {value!r} is a ")


@pytest.mark.parametrize(("name", "canonical"), GOOD)
def test_a_name_is_taken_in_any_case_and_kept_as_the_database_spells_it(name: str, canonical: str) -> None:
    assert zone(name).name == canonical
    assert str(zone(name)) == canonical
    assert zone(name) is zone(canonical)


def test_every_name_of_the_package_is_taken_but_the_placeholder() -> None:
    names = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()

    assert len(names) > 500
    assert [name for name in names if name != "Factory" and zone(name.upper()).name != name] == []


def test_a_machine_with_only_the_package_takes_and_refuses_the_same_names() -> None:
    names = [*REFUSED, *(name for name, _ in GOOD)]

    with_files = answers_with(names)[1]
    version, package_only = answers_with(names, PYTHONTZPATH="")

    assert package_only == with_files
    assert [answer for answer in package_only[: len(REFUSED)] if not answer.startswith("InvalidTimezoneError")] == []
    assert version[:2] == "20"


def test_a_machine_with_odd_files_takes_and_refuses_the_same_names(tmp_path: Path) -> None:
    berlin = resources.files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").read_bytes()
    (tmp_path / "Mars").mkdir()
    (tmp_path / "Mars" / "Olympus").write_bytes(berlin)
    (tmp_path / "localtime").write_bytes(berlin)
    (tmp_path / "UTC").write_bytes(b"damaged")
    names = ["Mars/Olympus", "localtime", "UTC", "Europe/Berlin"]

    version, answers = answers_with(names, PYTHONTZPATH=str(tmp_path))

    assert [answer.partition(":")[0] for answer in answers] == [
        "InvalidTimezoneError", "InvalidTimezoneError", "UTC", "Europe/Berlin",
    ]  # fmt: skip
    assert version == answers_with([], PYTHONTZPATH="")[0]


@pytest.mark.parametrize(
    ("name", "offer"),
    [
        ("Berlin", "'Europe/Berlin'"),
        ("new york", "'America/New_York'"),
        ("Europe/Berln", "'Europe/Berlin'"),
        ("Europe/Berlin ", "did you mean 'Europe/Berlin'?"),
        ("posix/UTC", "did you mean 'UTC'?"),
        ("UTC+2", "'Etc/GMT-2'"),
        ("gmt-05:00", "'Etc/GMT+5'? That is UTC-5"),
        ("GMT+2", "did you mean 'Etc/GMT-2'? That is UTC+2"),
        ("+02:00", "did you mean 'Etc/GMT-2'? That is UTC+2"),
        ("-0500", "did you mean 'Etc/GMT+5'? That is UTC-5"),
        ("UTC+0", "did you mean 'UTC'?"),
        ("+05:30", "database; give a name of the IANA database"),
        ("UTC+15", "database; give a name of the IANA database"),
        ("Z", "did you mean 'UTC'?"),
        ("CEST", "abbreviations mean different zones in different places"),
        ("bst", "abbreviations mean different zones in different places"),
        ("Rome", "did you mean 'Europe/Rome'?"),
        ("Europe", "is a region, not a zone"),
        ("", "is empty"),
        ("A" * 300, "give a name of the IANA database"),
    ],
)
def test_a_refusal_offers_a_way_out(name: str, offer: str) -> None:
    with pytest.raises(InvalidTimezoneError) as caught:
        zone(name)

    assert offer in str(caught.value)


def test_local_is_the_zone_of_the_machine_by_name_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "europe/berlin")

    with pytest.warns(AnarchonWarning, match="Europe/Berlin on this machine") as caught:
        found = zone("local")

    assert found.name == "Europe/Berlin"
    assert caught[0].filename == __file__
    assert issubclass(AnarchonWarning, UserWarning)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("America/New_York", "America/New_York"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ("", "UTC"),
        ("UTC", "UTC"),
    ],
)
def test_the_variable_tz_names_the_zone_of_the_machine(
    variable: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", variable)

    assert local_zone().name == name


def test_a_variable_tz_that_names_no_zone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST")

    with pytest.raises(InvalidTimezoneError, match="the machine's zone, from TZ=CET-1CEST"):
        local_zone()


def test_without_the_variable_the_link_names_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(os.path, "realpath", lambda path: "/usr/share/zoneinfo/Asia/Tokyo")

    assert local_zone().name == "Asia/Tokyo"


def test_a_machine_whose_zone_has_no_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "_local_name", lambda: None)

    with pytest.raises(InvalidTimezoneError, match="no IANA name"):
        local_zone()


def test_asking_for_a_zone_by_name_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zone("Europe/Berlin")


def test_the_version_of_the_database_is_that_of_the_files_in_use(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").touch()
    unknown = answers_with([], PYTHONTZPATH=str(tmp_path))[0]
    (tmp_path / "tzdata.zi").write_text("# version 2019c\n# This zic input file is in the public domain.\n")
    known = answers_with([], PYTHONTZPATH=str(tmp_path))[0]

    assert (unknown, known) == ("unknown", "2019c")
    assert answers_with([], PYTHONTZPATH="")[0][:2] == "20"
    assert tz_database_version() == tz_database_version()


def test_a_zone_survives_copying_and_pickling_as_the_same_object() -> None:
    berlin = zone("Europe/Berlin")

    assert pickle.loads(pickle.dumps(berlin)) is berlin
    assert copy.deepcopy(berlin) is berlin
    assert repr(berlin) == "Zone('Europe/Berlin')"


def test_a_zone_knows_its_kinds_of_clock_change() -> None:
    march_and_april, october_and_november = 1 << 3 | 1 << 4, 1 << 10 | 1 << 11

    assert zone("Europe/Berlin").shifts == (
        Shift(120, 60, march_and_april),
        Shift(180, -60, october_and_november),
    )
    assert zone("Asia/Tokyo").shifts == ()
    assert (zone("Europe/Berlin").rise, zone("Asia/Tokyo").rise, zone("Antarctica/Troll").rise) == (60, 0, 120)


def test_a_zone_answers_far_outside_the_calendar_and_forgets_old_years() -> None:
    berlin = zone("Europe/Berlin")

    assert berlin.offset_at(-(2**59)) == berlin.offset_at(-62_135_596_800)
    assert {berlin.offset_at(2**50), berlin.offset_at(2**50 + 86_400 * 183)} == {3600, 7200}
    assert {berlin.offset_at(86_400 * 365 * year) for year in range(100, 2_000)} == {3600, 7200}
