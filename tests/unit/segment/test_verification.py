"""How closely a segment is looked at before it lands: what each way finds, and who looks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pytest
from forged import KINDS, forged, originals
from hostile import File, Sent, changed, sent

from columnar_kafka import Segment, SegmentError, native
from columnar_kafka.segment import decoder, verification
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.isolated import IsolatedDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = list(forged(2 * len(KINDS)))


def verify(of: Sent, how: Any) -> bool:
    segment = Segment(topic="t", partition=3, offset=5, headers=of.headers(), value=of.value)
    return segment.verify(how)


def refused(how: Any) -> list[str]:
    """Verify all forged segments; return the kinds of those that are refused."""
    kinds = []
    for kind, segment in FORGED:
        try:
            verify(segment, how)
        except SegmentError:
            kinds.append(kind)
    return kinds


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Each test has decoders of its own."""
    caches = verification.arrow_decoder, decoder.decoder_with
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded in a child process, which takes half a second to start."""
    monkeypatch.setattr(verification, "IsolatedDecoder", InlineDecoder)


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "IsolatedDecoder", InlineDecoder)
    monkeypatch.setattr(native, "enabled", False)


@pytest.mark.parametrize("how", verification.VERIFICATIONS)
@pytest.mark.usefixtures("inline")
def test_good_segments_pass(how: Any) -> None:
    assert all(verify(original, how) for original in originals().values())


@pytest.mark.parametrize("how", verification.VERIFICATIONS)
@pytest.mark.usefixtures("pure")
def test_good_segments_pass_without_the_core(how: Any) -> None:
    assert all(verify(original, how) for original in originals().values())


@pytest.mark.usefixtures("inline")
def test_headers_look_at_no_page() -> None:
    assert refused("headers") == []


@pytest.mark.usefixtures("pure")
def test_a_scan_looks_at_no_text() -> None:
    assert set(KINDS) - set(refused("pages")) == {"text", "statistics"}
    assert "text" in refused("decode")


@pytest.mark.usefixtures("inline")
def test_only_with_the_core_are_pages_as_strict_as_decoding() -> None:
    assert (refused("pages") == refused("decode")) is native.enabled


@pytest.mark.usefixtures("inline")
def test_what_the_core_has_not_decoded_shares_no_file() -> None:
    plain = sent(pa.table({"n": [1, 2, 3]}), data_page_version="2.0")
    assert verify(plain, "pages")
    assert verify(plain, "decode") is not native.enabled


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
def test_arrow_reads_foreign_bytes_in_a_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "enabled", False)
    good = originals()["ours", "none"]

    def shorten(file: File) -> None:
        page = file.chunks[0][0][0]
        page.fill(page.body[:-1])

    for how in ("pages", "decode"):
        assert verify(good, how)
        with pytest.raises(SegmentError, match=r"^segment at t\[3\]@5: cannot be decoded"):
            verify(changed(good, shorten), how)
    decoder = verification.arrow_decoder(os.getpid())
    assert isinstance(decoder, IsolatedDecoder)
    assert decoder.child is not None
    decoder.close()


@pytest.mark.parametrize("how", ["pages", "decode"])
@pytest.mark.usefixtures("inline")
def test_what_exceeds_a_limit_is_refused_and_names_it(how: Any) -> None:
    says = r"columnar\.max\.decoded\.bytes is 268435456: only a consumer can raise it"
    with pytest.raises(SegmentError, match=says):
        verify(hostile.BOMBS["null_lists"](), how)


@pytest.mark.usefixtures("inline")
def test_a_time_that_readers_with_microseconds_cannot_have_shares_no_file() -> None:
    """The format allows it; duckdb refuses all of a file that has one."""
    limit = (1 << 63) // 1000
    for value, fits in ((limit - 1, True), (limit + 1, False)):
        table = pa.table({"at": pa.array([0, value], pa.timestamp("ms"))})
        assert verify(sent(table), "decode") is (fits or not native.enabled)
        assert verify(sent(table), "pages")
