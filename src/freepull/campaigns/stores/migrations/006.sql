-- What became of payments outside, how far webhooks were delivered, and tokens of payers.
CREATE TABLE settlements (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  entry BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'sent', 'settled', 'failed')),
  at BIGINT NOT NULL,
  payer TEXT NOT NULL,
  note TEXT NOT NULL,
  tries BIGINT NOT NULL,
  seal BIGINT,
  PRIMARY KEY (campaign, entry)
) {clustered};
CREATE TABLE webhooks (
  campaign BIGINT NOT NULL REFERENCES campaigns,
  target TEXT NOT NULL,
  event BIGINT NOT NULL,
  segment BIGINT NOT NULL,
  paid BIGINT NOT NULL,
  stuck TEXT NOT NULL,
  seal BIGINT,
  PRIMARY KEY (campaign, target)
) {clustered};
ALTER TABLE tokens RENAME TO tokens_before;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  hash {blob} NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('admin', 'operator', 'read', 'gateway', 'payer')),
  campaign TEXT NOT NULL,
  label TEXT NOT NULL,
  made BIGINT NOT NULL,
  expires BIGINT,
  revoked BIGINT,
  seal BIGINT
);
INSERT INTO tokens (id, hash, scope, campaign, label, made, expires, revoked, seal)
  SELECT id, hash, scope, campaign, label, made, expires, revoked, seal FROM tokens_before;
DROP TABLE tokens_before;
