"""Operations that may write more than once but are in no scene, each with a reason."""

from __future__ import annotations

_DEMO = "it loads sample data by operations that are in scenes, each by itself"

UNEXPLORED: dict[str, str] = {
    "BufferedHits.flush_on_sigterm": "it closes when a signal ends the process; closing is one `flush`",
    "Retention.drop": "the explorer cannot restore a dropped collection; tests/systems/analytics/test_retention.py",
    "ads.demo": _DEMO,
    "analytics.demo": _DEMO,
    "commerce.demo": _DEMO,
    "content.demo": _DEMO,
    "game.demo": _DEMO,
    "ledger.demo": _DEMO,
    "social.demo": _DEMO,
}
