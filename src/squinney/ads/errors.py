"""The errors of the advertising network."""

from squinney.errors import Conflict, Forbidden, NotFound


class UnknownCampaign(NotFound):
    """There is no campaign with this id."""


class CampaignTaken(Conflict):
    """A campaign with this id already exists."""


class CampaignEnded(Conflict):
    """The campaign has ended permanently."""


class BadServe(Forbidden):
    """The serve id was not issued by this network."""


class ServeExpired(Conflict):
    """The serve is too old for this event."""


class UnitTaken(Conflict):
    """Another campaign has an ad with this unit in the zone."""


class UnknownAd(NotFound):
    """There is no ad with this unit in the zone."""


class ReviewChanged(Conflict):
    """The ad was changed or decided after the editor had read it."""


class FundedEnough(Conflict):
    """The amount would exceed the total budget of the campaign."""
