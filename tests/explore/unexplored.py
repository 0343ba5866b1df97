"""Operations that may write more than once but are in no scene, each with a reason."""

from __future__ import annotations

_DEMO = "it loads sample data by operations that are in scenes, each by itself"
_TO_COME = "no scene yet"

# Remove a name when a scene calls it.
SHOP_CONTENT_ADS_GAME_AND_SOCIAL_WITHOUT_SCENE_YET = (
    *("AdNetwork.conversion", "AdNetwork.viewable", "Carts.expire_carts", "Carts.forget_carts", "Carts.new"),
    *("Carts.return_orphans", "Carts.settle", "Carts.settle_payments", "Catalog.import_products", "Catalog.replace"),
    *("Categories.add_paths", "Moderation.decide", "Moderation.flag", "Network.count_photo", "Network.deliver"),
    *("Network.join", "Network.load", "Network.unblock", "Orders.from_cart", "Orders.place", "People.erase"),
    *("Photos.remove", "Photos.replace", "Photos.upload", "World.adjust", "World.create_character"),
    *("World.create_item", "World.create_location", "World.load_world", "World.remove", "World.say", "World.sell"),
    *("World.split", "World.stack", "World.take_out", "World.use", "World.wield", "ads.repair", "commerce.repair"),
    *("content.repair", "content.sweep_removals", "content.sweep_uploads", "game.repair", "job:deliver-social-posts"),
    *("job:expire-carts", "job:forget-carts", "job:forget-lost-photos", "job:refresh-ad-ecpm", "job:return-orphans"),
    *("job:settle-payments", "job:sweep-content", "job:sweep-social-entries", "job:sweep-uploads"),
    *("job:wander-game-monsters", "social.repair"),
)

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
    **dict.fromkeys(SHOP_CONTENT_ADS_GAME_AND_SOCIAL_WITHOUT_SCENE_YET, _TO_COME),
}
