"""Generated calls of every public function are answered correctly, or refused with a clear message.

`generated_calls` has the generator and says what counts as correct and clear.
"""

import matplotlib as mpl
import pytest

pytest.importorskip("pandas", reason="some of the generated input is pandas objects")

from generated_calls import KINDS, outcomes, table, warm_up

mpl.use("Agg")

#: Kinds of outcome that no call may have, however odd.
NEVER = ("warning", "wrong answer", "hang")


@pytest.fixture(scope="module")
def compiled():
    warm_up()


def report(found):
    return "\n".join([*(str(one) for one in found if one.is_fault), table(found)])


def test_a_hundred_generated_calls_are_right_or_clear(compiled):
    found = outcomes(100, 0)
    assert not any(one.is_fault for one in found), report(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_thousands_of_generated_calls_are_right_or_clear(compiled, seed, capsys):
    found = outcomes(2000, seed)
    with capsys.disabled():
        print(f"\n{table(found)}")
    assert not any(one.kind in NEVER for one in found), report(found)
    good = sum(one.kind in KINDS[:2] for one in found)
    assert good >= 0.995 * len(found), report(found)
