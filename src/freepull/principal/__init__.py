"""The principal: settings (`Principal`), the running state (`Trial`), and the parts she is made of."""

from freepull.principal import pricing, protocols, rules, schedules
from freepull.principal.offers import Offer
from freepull.principal.principal import OFFERS, Principal, for_people, personal_weights, personalised
from freepull.principal.trial import Trial
from freepull.principal.verdict import Checks, Grounds, Verdict

__all__ = [
    "OFFERS",
    "Checks",
    "Grounds",
    "Offer",
    "Principal",
    "Trial",
    "Verdict",
    "for_people",
    "personal_weights",
    "personalised",
    "pricing",
    "protocols",
    "rules",
    "schedules",
]
