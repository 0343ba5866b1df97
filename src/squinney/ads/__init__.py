"""System 11: the advertising network."""

from squinney.ads.demo import demo
from squinney.ads.documents import COLLECTIONS, Campaign, Candidate, Click, Funding, Placement, Review, Serve
from squinney.ads.errors import (
    BadServe,
    CampaignEnded,
    CampaignTaken,
    FundedEnough,
    ReviewChanged,
    ServeExpired,
    UnitTaken,
    UnknownAd,
    UnknownCampaign,
)
from squinney.ads.network import AdNetwork
from squinney.ads.queries import QUERIES
from squinney.ads.repair import find_problems, repair

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "AdNetwork",
    "BadServe",
    "Campaign",
    "CampaignEnded",
    "CampaignTaken",
    "Candidate",
    "Click",
    "FundedEnough",
    "Funding",
    "Placement",
    "Review",
    "ReviewChanged",
    "Serve",
    "ServeExpired",
    "UnitTaken",
    "UnknownAd",
    "UnknownCampaign",
    "demo",
    "find_problems",
    "repair",
]
