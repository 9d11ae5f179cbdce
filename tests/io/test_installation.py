"""Machines that compute the same bytes: one release, the same packages, and where it matters one type of processor."""

from dataclasses import replace

import pytest

from online.io.installation import Installation, describe_processor

HERE = Installation("a", "1f", {"numpy": "2.3.0", "torch": "2.9.0"}, "x86_64 GenuineIntel avx avx2")
INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
flags\t\t: fpu sse sse2 ht avx avx2 fma avx512f amx_int8

processor\t: 1
vendor_id\t: GenuineIntel
flags\t\t: fpu sse
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd crc32 sve\nCPU implementer\t: 0x41\n"


def test_a_machine_with_the_same_installation_is_accepted_by_any_name() -> None:
    assert HERE.find_difference(replace(HERE, host="b"), same_processor=True) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(HERE, host="b", code="2e"), "b has other code of `online` than a"),
        (replace(HERE, host="b", packages={"numpy": "2.3.0"}), "b has torch none, and a has 2.9.0"),
        (replace(HERE, host="b", packages={**HERE.packages, "river": "0.22"}), "b has river 0.22, and a has none"),
    ],
)
def test_another_release_is_named_with_what_to_do(other: Installation, words: str) -> None:
    assert words in HERE.find_difference(other, same_processor=False)
    assert ": install the same" in HERE.find_difference(other, same_processor=False)


def test_another_processor_matters_only_where_numbers_are_rounded() -> None:
    other = replace(HERE, host="b", processor="x86_64 AuthenticAMD avx avx2")
    assert HERE.find_difference(other, same_processor=False) == ""
    assert "b has another processor (x86_64 AuthenticAMD avx avx2)" in HERE.find_difference(other, same_processor=True)


def test_a_processor_is_described_by_its_maker_and_its_units_for_vectors() -> None:
    assert describe_processor(INTEL).endswith(" GenuineIntel amx_int8 avx avx2 avx512f fma sse sse2")
    assert describe_processor(ARM).endswith(" 0x41 asimd sve")
