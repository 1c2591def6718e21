"""The journal of a campaign: events, segments, snapshots, and what reads them back."""
