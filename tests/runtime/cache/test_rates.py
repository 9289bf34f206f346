"""Which is faster, as far as it was seen."""

from __future__ import annotations

from runtime.cache.rates import Rates


def test_until_both_were_seen_copying_is_taken_to_pay() -> None:
    rates = Rates()
    assert rates.copying_pays
    rates.copying.saw(16, 100.0)
    assert rates.copying_pays
    rates.computing.saw(16, 1.0)
    assert not rates.copying_pays


def test_a_rate_is_of_tokens_and_follows_what_changes() -> None:
    rates = Rates()
    rates.copying.saw(100, 1.0)
    rates.copying.saw(0, 0.0)
    assert rates.copying.seconds == 0.01
    rates.computing.saw(10, 0.05)
    assert not rates.copying_pays
    for _ in range(100):
        rates.copying.saw(100, 0.1)
    assert rates.copying_pays
