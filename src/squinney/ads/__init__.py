"""System 11: the advertising network."""

from squinney.ads.demo import demo
from squinney.ads.documents import COLLECTIONS, Campaign, Candidate, Click, Placement, Serve
from squinney.ads.errors import (
    BadServe,
    CampaignEnded,
    CampaignTaken,
    ServeExpired,
    UnitTaken,
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
    "Placement",
    "Serve",
    "ServeExpired",
    "UnitTaken",
    "UnknownCampaign",
    "demo",
    "find_problems",
    "repair",
]
