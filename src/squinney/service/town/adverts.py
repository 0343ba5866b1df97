"""The campaigns of the town's businesses. Each ad leads to a page of this site, and never to the page that it is on."""

from __future__ import annotations

from squinney.ads.demo import Offer, load_campaigns
from squinney.service.town.parts import Town

SITE_ZONE, BOTH = {"site": 1.0}, {"site": 1.0, "shop": 0.55}
# Advertiser, campaign, price, daily budget, mean impressions a day, click rate, keywords; title, text, URL; zones
CAMPAIGNS: list[Offer] = [
    ("Pell's chandlery", "pell:lanterns", {"model": "cpm", "bid": 420}, 2_500, 420, 0.013, ["lighthouse", "Sea songs"],
     ("A lantern, to be sure", "Brass and four panes. Pell has lanterns.", "/site/magazine/buying-a-lantern"), BOTH),
    ("The Brass Fiddle", "fiddle:fridays", {"model": "cpc", "bid": 35}, 2_000, 510, 0.017, ["music", "Jazz", "Folk"],
     ("Friday at the Fiddle", "Drums, a trumpet, and Bess until she has had enough.", "/site/brass-fiddle"), BOTH),
    ("The night ferry", "ferry:winter", {"model": "cpm", "bid": 380}, 2_000, 390, 0.008, ["travel", "trains"],
     ("Sleep to the snow", "Leave at eleven, wake up at the lift. There is tea.", "/site/night-ferry"), BOTH),
    ("Okafor's bakery", "bakery:412", {"model": "cpc", "bid": 20}, 900, 330, 0.021, ["kitchen", "town"],
     ("No. 412 is out of the oven", "Crumb like a cathedral. From seven, while it lasts.", "/site/bakery"), BOTH),
    ("The library", "library:evenings", {"model": "cpc", "bid": 8}, 300, 260, 0.019, ["library", "Documentary"],
     ("Open until ten", "Every evening but Sunday. It is warm.", "/site/library"), BOTH),
    ("Record and film shop", "shop:sodium", {"model": "cpm", "bid": 300}, 1_200, 310, 0.015, ["music", "walks"],
     ("Sodium, on vinyl", "Orange music for walking home.", "/shop/products/lp-sodium"), SITE_ZONE),
]  # fmt: skip


def load(town: Town) -> None:
    """Load the campaigns with their ads and a month of delivery.

    Atomic: each campaign, each ad and each campaign's month separately.
    After a crash: the next call continues.
    """
    load_campaigns(town.db, CAMPAIGNS, town.now)
