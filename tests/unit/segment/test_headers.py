"""The wire contract's checks that need no decoding: each header missing, twice, garbled, newer."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.headers import (
    HEADER_BYTES,
    SegmentHeader,
    check_value,
    is_segment,
    parse_headers,
    with_checksum,
)

VALUE = b"PAR1 and so on"
HEADER = SegmentHeader(
    rows=3, segment="0123456789abcdef0123-7", schema="0f" * 16, timestamp_min=-5, timestamp_max=1000
)
GOOD: dict[str, bytes] = {
    "columnar.encoding": b"parquet",
    "columnar.version": b"1",
    "columnar.rows": b"3",
    "columnar.segment": b"0123456789abcdef0123-7",
    "columnar.schema": b"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
    "columnar.timestamp.min": b"-5",
    "columnar.timestamp.max": b"1000",
    "columnar.crc32": b"%d" % zlib.crc32(VALUE),
}


def headers(**changed: Any) -> list[tuple[str, Any]]:
    """Good headers, some of them changed: `timestamp_min=b"1"`; `...` leaves one out."""
    names = {name.replace(".", "_").removeprefix("columnar_"): name for name in GOOD}
    names["schema_id"] = "columnar.schema.id"
    values: dict[str, Any] = dict(GOOD) | {names[key]: value for key, value in changed.items()}
    return [(key, value) for key, value in values.items() if value is not ...]


def refusal(pairs: Any) -> str:
    with pytest.raises(SegmentError) as raised:
        parse_headers(pairs)
    return raised.value.reason


# --- writing --------------------------------------------------------------------------------------


def test_the_headers_are_these_bytes_in_this_order() -> None:
    assert list(with_checksum(HEADER.footer(), VALUE).items()) == list(GOOD.items())


def test_the_footer_repeats_all_headers_but_the_checksum() -> None:
    pairs = {key: value for key, value in GOOD.items() if key != "columnar.crc32"}
    assert HEADER.footer() == pairs


def test_a_registrys_id_is_one_header_more() -> None:
    header = SegmentHeader(
        rows=1, segment="p", schema="0" * 32, timestamp_min=0, timestamp_max=0, schema_id=0
    )
    footer = header.footer()
    assert footer["columnar.schema.id"] == b"0"
    assert with_checksum(footer, VALUE)["columnar.schema.id"] == b"0"


def test_the_longest_headers_stay_below_what_is_reserved_for_them() -> None:
    header = SegmentHeader(
        rows=1 << 20,
        segment="x" * 40,
        schema="0" * 32,
        timestamp_min=-(1 << 63),
        timestamp_max=-(1 << 63),
        schema_id=(1 << 63) - 1,
    )
    lengths = 10  # two of five bytes at most
    headers = with_checksum(header.footer(), b"")
    assert sum(len(key) + len(value) + lengths for key, value in headers.items()) == 390
    assert HEADER_BYTES == 512


# --- reading --------------------------------------------------------------------------------------


def test_what_was_written_is_read() -> None:
    assert parse_headers(with_checksum(HEADER.footer(), VALUE)) == (HEADER, zlib.crc32(VALUE))


def test_headers_as_a_dict_of_text_are_read_too() -> None:
    pairs = {key: value.decode() for key, value in GOOD.items()}
    assert parse_headers(pairs) == (HEADER, zlib.crc32(VALUE))


def test_their_order_does_not_matter() -> None:
    assert parse_headers(list(reversed(headers()))) == (HEADER, zlib.crc32(VALUE))


def test_a_registrys_id_is_read() -> None:
    assert parse_headers(headers(schema_id=b"42"))[0].schema_id == 42


def test_other_headers_are_none_of_our_business_even_twice() -> None:
    others = [("trace", b"1"), ("trace", None), ("columnarx", b""), ("Columnar.rows", b"9")]
    assert parse_headers([*others, *headers()])[0] == HEADER


def test_an_unknown_header_of_ours_is_ignored() -> None:
    """So a later release can say more without breaking those that read version 1."""
    assert parse_headers([*headers(), ("columnar.hint", b"\xff")])[0] == HEADER


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_header_is_named(name: str) -> None:
    pairs = [pair for pair in headers() if pair[0] != name]
    assert refusal(pairs) == f"header {name} is missing, which version 1 does not allow"


@pytest.mark.parametrize("name", GOOD)
def test_a_null_header_is_as_good_as_missing(name: str) -> None:
    pairs = [(key, None if key == name else value) for key, value in headers()]
    assert refusal(pairs) == f"header {name} is missing, which version 1 does not allow"


@pytest.mark.parametrize("name", [*GOOD, "columnar.schema.id", "columnar.hint"])
@pytest.mark.parametrize("again", ["same", "other"])
def test_a_repeated_header_is_refused_even_when_both_agree(name: str, again: str) -> None:
    value = GOOD.get(name, b"1")
    pairs = [*headers(schema_id=b"1"), ("columnar.hint", b"1")]
    pairs.append((name, value if again == "same" else b"2"))
    assert refusal(pairs) == f"header {name} occurs twice"


NUMBERS = ["rows", "timestamp_min", "timestamp_max", "crc32", "version", "schema_id"]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b" 3",
        b"3 ",
        b"3\n",
        b"+3",
        b"03",
        b"-0",
        b"--3",
        b"3.0",
        b"3e0",
        b"0x3",
        b"1_000",
        b"\xff",
        b"\x003",
        "\u0663".encode(),
        b"1" * 20,
        b"9" * 4000,
    ],
)
def test_a_garbled_number_is_refused(name: str, text: bytes) -> None:
    message = refusal(headers(**{name: text}))
    assert message.startswith(f"header columnar.{name.replace('_', '.')} is ")
    assert len(message) < 400


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows", b"0", "header columnar.rows is 0; it must be from 1 to 1048576"),
        ("rows", b"-1", "header columnar.rows is -1; it must be from 1 to 1048576"),
        ("rows", b"1048577", "header columnar.rows is 1048577; it must be from 1 to 1048576"),
        ("crc32", b"-1", "header columnar.crc32 is -1; it must be from 0 to 4294967295"),
        (
            "crc32",
            b"4294967296",
            "header columnar.crc32 is 4294967296; it must be from 0 to 4294967295",
        ),
        (
            "schema_id",
            b"-1",
            "header columnar.schema.id is -1; it must be from 0 to 9223372036854775807",
        ),
        (
            "timestamp_max",
            b"9223372036854775808",
            (
                "header columnar.timestamp.max is 9223372036854775808; "
                "it must be from -9223372036854775808 to 9223372036854775807"
            ),
        ),
        (
            "timestamp_min",
            b"-9223372036854775809",
            (
                "header columnar.timestamp.min is -9223372036854775809; "
                "it must be from -9223372036854775808 to 9223372036854775807"
            ),
        ),
    ],
)
def test_a_number_out_of_its_range_is_refused(name: str, text: bytes, message: str) -> None:
    assert refusal(headers(**{name: text})) == message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows", b"1"),
        ("rows", b"1048576"),
        ("crc32", b"0"),
        ("crc32", b"4294967295"),
        ("timestamp_min", b"-9223372036854775808"),
        ("timestamp_max", b"9223372036854775807"),
        ("timestamp_min", b"1000"),
    ],
)
def test_the_ends_of_the_ranges_are_in_them(name: str, text: bytes) -> None:
    header, crc32 = parse_headers(headers(**{name: text}))
    assert (crc32 if name == "crc32" else getattr(header, name)) == int(text)


@pytest.mark.parametrize("text", [b"", b"a b", b"x" * 41, "é".encode(), b"a\n", b"a:b", b"\xff"])
def test_a_garbled_segment_id_is_refused(text: bytes) -> None:
    assert refusal(headers(segment=text)).startswith("header columnar.segment is b")


@pytest.mark.parametrize(
    "text", [b"", b"0" * 31, b"0" * 33, b"0F" * 16, b"g" * 32, b"0" * 31 + b"\n", b"\xff" * 32]
)
def test_a_garbled_fingerprint_is_refused(text: bytes) -> None:
    assert refusal(headers(schema=text)).startswith("header columnar.schema is b")


@pytest.mark.parametrize("text", [b"", b"none", b"PARQUET", b"parquet ", b"avro", b"\xff"])
def test_another_encoding_is_refused(text: bytes) -> None:
    assert refusal(headers(encoding=text)) == (
        f"header columnar.encoding is {text!r}, which version 1 does not allow"
    )


@pytest.mark.parametrize("version", [b"2", b"10", b"9223372036854775807", b"0"])
def test_another_version_is_refused_saying_what_to_do(version: bytes) -> None:
    """Nothing else is looked at: a newer version may have other headers."""
    pairs = [("columnar.encoding", b"parquet"), ("columnar.version", version)]
    assert refusal(pairs) == (
        f"columnar.version is {version.decode()}; "
        "this release of columnar-kafka reads version 1: upgrade it"
    )


def test_an_earliest_time_after_the_latest_is_refused() -> None:
    assert refusal(headers(timestamp_min=b"1001")) == (
        "columnar.timestamp.min is 1001, later than columnar.timestamp.max, 1000"
    )


# --- segments and plain messages ------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"parquet", b"avro", b"", None])
def test_the_encoding_header_makes_a_message_a_segment_whatever_it_says(value: Any) -> None:
    assert is_segment([("a", b"b"), ("columnar.encoding", value)])


@pytest.mark.parametrize(
    "pairs", [None, [], {}, [("a", b"parquet")], [("columnar.version", b"1")], {"trace": b"1"}]
)
def test_every_other_message_is_plain(pairs: Any) -> None:
    assert not is_segment(pairs)


def test_no_headers_at_all_are_refused_not_guessed() -> None:
    assert refusal(None) == "header columnar.encoding is missing, which version 1 does not allow"


# --- the footer and the checksum ------------------------------------------------------------------

FOOTER = {key.encode(): value for key, value in GOOD.items() if key != "columnar.crc32"}


def disagreement(footer: dict[bytes, bytes]) -> str:
    """Return what is wrong with a footer, or nothing."""
    try:
        HEADER.check_footer(footer)
    except SegmentError as error:
        return error.reason
    return ""


def test_a_footer_that_agrees_is_accepted_with_whatever_else_it_holds() -> None:
    others = {b"ARROW:schema": b"x", b"columnar.hint": b"y", b"owner": b"z"}
    assert disagreement(FOOTER | others) == ""


@pytest.mark.parametrize("key", FOOTER)
def test_a_footer_that_disagrees_names_the_key_and_both_texts(key: bytes) -> None:
    name, ours = key.decode(), FOOTER[key].decode()
    assert (
        disagreement(FOOTER | {key: b"other"})
        == f"{name} is {ours} in the headers and b'other' in the file"
    )


@pytest.mark.parametrize("key", FOOTER)
def test_a_footer_that_lacks_a_key_is_refused(key: bytes) -> None:
    footer = {k: v for k, v in FOOTER.items() if k != key}
    assert disagreement(footer).endswith(" in the headers and missing in the file")


@pytest.mark.parametrize("footer", [None, {}])
def test_a_file_that_says_nothing_of_itself_is_refused(footer: Any) -> None:
    with pytest.raises(SegmentError, match="missing in the file"):
        HEADER.check_footer(footer)


def test_a_registrys_id_that_only_the_footer_has_is_refused() -> None:
    with pytest.raises(SegmentError) as raised:
        HEADER.check_footer(FOOTER | {b"columnar.schema.id": b"4"})
    assert raised.value.reason == "columnar.schema.id is in the file and not in the headers"


def test_the_value_must_have_its_checksum() -> None:
    check_value(VALUE, zlib.crc32(VALUE))
    with pytest.raises(SegmentError) as raised:
        check_value(VALUE[:-1], zlib.crc32(VALUE))
    assert raised.value.reason == (
        f"columnar.crc32 is {zlib.crc32(VALUE)}, but the value has the checksum "
        f"{zlib.crc32(VALUE[:-1])}: "
        "the bytes are damaged"
    )
