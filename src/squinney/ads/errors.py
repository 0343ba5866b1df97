"""What the advertising network refuses."""

from squinney.errors import Conflict, Forbidden, NotFound


class UnknownCampaign(NotFound):
    """There is no such campaign."""

    code = "unknown-campaign"


class CampaignTaken(Conflict):
    """There is a campaign of that id."""

    code = "campaign-taken"


class CampaignEnded(Conflict):
    """The campaign has ended for good."""

    code = "campaign-ended"


class BadServe(Forbidden):
    """The serve id is none that this network gave out."""

    code = "bad-serve"


class ServeExpired(Conflict):
    """The serve is too long ago."""

    code = "serve-expired"


class UnitTaken(Conflict):
    """Another campaign has an ad unit of that name in the zone."""

    code = "unit-taken"
