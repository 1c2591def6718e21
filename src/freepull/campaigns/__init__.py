"""Live campaigns: a trial made durable, with one writer, a log, a ledger, and a store of your choice."""

from freepull.campaigns.campaign import AsyncCampaign, Campaign
from freepull.campaigns.stores import Store
from freepull.messages import CampaignOffer, CampaignVerdict, Observation, Status, Told
from freepull.money import Money

__all__ = [
    "AsyncCampaign",
    "Campaign",
    "CampaignOffer",
    "CampaignVerdict",
    "Money",
    "Observation",
    "Status",
    "Store",
    "Told",
]
