"""The comparison of the soak: which lines of a script count as there."""

from __future__ import annotations

import pytest

from tests.soak.ledger import numbers_in


@pytest.mark.parametrize(
    ("log", "numbers"),
    [
        (b"<1>\n<2>\n", [1, 2]),
        (b"<1>\n<24runyard: warning: No space left on device\n33>\n<2434>\n", [1, 2433, 2434]),
        (b"<1>\n<runyard: warning: No space left on device2433>\n", [1, 2433]),
        (b"<1>\n<space left on device; 12 points wait in memory\n2433>\n", [1, 2433]),
        (b"<1>\n<3runyard: warning: full\nrunyard: warning: full, too\n084>\n<3085>\n", [1, 3084, 3085]),
        (b"<1>\n<30left on device\nrunyard: warning: full\nrunyard: warning: still57>\n", [1, 3057]),
        (b"<1>\n<24\n<2434>\n", [1, 2434]),
        (b"<1>\n24>\n<25>\n", [1, 25]),
        (b"<1>\n<24 one line of ours\nanother\n33>\n<25>\n", [1, 25]),
    ],
    ids=[
        "plain",
        "warning inside",
        "its end is cut",
        "its head is cut",
        "two warnings",
        "the rest of one and two more",
        "end lost",
        "head lost",
        "a line that is no warning",
    ],
)
def test_a_line_counts_as_there_when_all_its_bytes_are(log: bytes, numbers: list[int]) -> None:
    assert numbers_in(log) == numbers
