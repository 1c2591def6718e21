"""Live campaigns: a trial made durable, with one writer, a log, a ledger, and a store of your choice."""

from freepull.live.asynchronous import AsyncCampaign
from freepull.live.campaign import Campaign
from freepull.live.money import Money
from freepull.live.replies import Observation, Offer, Status, Told, Verdict
from freepull.live.stores import Store

__all__ = ["AsyncCampaign", "Campaign", "Money", "Observation", "Offer", "Status", "Store", "Told", "Verdict"]
