"""Operations that may write more than once but are in no scene, each with a reason."""

from __future__ import annotations

_DEMO = "it loads sample data by operations that are in scenes, each by itself"
_TO_COME = "no scene yet"

# Remove a name when a scene calls it.
WITHOUT_SCENE_YET = (
    *("BufferedHits.close", "BufferedHits.flush", "EventLog.follow", "EventLog.import_file", "EventLog.record"),
    *("EventLog.record_many", "Hits.preallocate", "Hits.record", "Hits.record_many", "Retention.apply"),
    *("Retention.drop", "Retention.switch", "Rollups.rebuild", "Rollups.regroup", "Rollups.run", "Sessions.derive"),
    *("analytics.feed_hits", "analytics.forget", "analytics.repair", "job:retain-events", "job:roll-up-events"),
)

UNEXPLORED: dict[str, str] = {
    "BufferedHits.flush_on_sigterm": "it closes when a signal ends the process; closing is one `flush`",
    "ads.demo": _DEMO,
    "analytics.demo": _DEMO,
    "commerce.demo": _DEMO,
    "content.demo": _DEMO,
    "game.demo": _DEMO,
    "ledger.demo": _DEMO,
    "social.demo": _DEMO,
    **dict.fromkeys(WITHOUT_SCENE_YET, _TO_COME),
}
