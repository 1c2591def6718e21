-- The tables of freepull.live.rows. {blob}, {serial} and {clustered} are words of the database at hand.
CREATE TABLE campaigns (
  campaign {serial},
  name TEXT NOT NULL UNIQUE,
  epoch BIGINT NOT NULL,
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL
);
CREATE TABLE segments (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  number BIGINT NOT NULL,
  first BIGINT NOT NULL,
  count BIGINT NOT NULL,
  data {blob} NOT NULL,
  PRIMARY KEY (campaign, number)
);
CREATE TABLE offers (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  offer BIGINT NOT NULL,
  agent BIGINT NOT NULL,
  arm BIGINT NOT NULL,
  step BIGINT NOT NULL,
  at BIGINT NOT NULL,
  deadline BIGINT NOT NULL,
  recalled BIGINT NOT NULL,
  ending TEXT CHECK (ending IN ('paid', 'refused', 'expired', 'cancelled')),
  ended BIGINT CHECK ((ended IS NULL) = (ending IS NULL)),
  PRIMARY KEY (campaign, offer)
) {clustered};
CREATE TABLE ledger (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  entry BIGINT NOT NULL,
  offer BIGINT NOT NULL,
  agent BIGINT NOT NULL,
  arm BIGINT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  currency TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (campaign, entry),
  UNIQUE (campaign, offer)
) {clustered};
CREATE TABLE bans (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  entry BIGINT NOT NULL,
  agent BIGINT NOT NULL,
  offer BIGINT NOT NULL,
  step BIGINT NOT NULL,
  until BIGINT NOT NULL,
  at BIGINT NOT NULL,
  lifted BIGINT,
  PRIMARY KEY (campaign, entry)
) {clustered};
CREATE TABLE audit (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  event BIGINT NOT NULL,
  at BIGINT NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (campaign, event)
) {clustered};
CREATE TABLE names (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  agent BIGINT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (campaign, agent),
  UNIQUE (campaign, name)
) {clustered};
CREATE TABLE event_ids (
  campaign BIGINT NOT NULL,
  id {blob} NOT NULL,
  event BIGINT NOT NULL,
  record {blob} NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (campaign, id)
);
CREATE INDEX event_ids_at ON event_ids (campaign, at);
CREATE TABLE snapshots (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  event BIGINT NOT NULL,
  part BIGINT NOT NULL,
  parts BIGINT NOT NULL,
  data {blob} NOT NULL,
  PRIMARY KEY (campaign, event, part)
);
