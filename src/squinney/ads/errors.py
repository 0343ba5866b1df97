"""What the advertising network refuses."""

from squinney.errors import Conflict, Forbidden, NotFound


class UnknownCampaign(NotFound):
    """There is no such campaign."""


class CampaignTaken(Conflict):
    """There is a campaign of that id."""


class CampaignEnded(Conflict):
    """The campaign has ended for good."""


class BadServe(Forbidden):
    """The serve id is none that this network gave out."""


class ServeExpired(Conflict):
    """The serve is too long ago."""


class UnitTaken(Conflict):
    """Another campaign has an ad unit of that name in the zone."""
