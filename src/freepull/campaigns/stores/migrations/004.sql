-- Tokens of operators, and who has made and revoked tokens; see freepull.campaigns.stores.serving.
ALTER TABLE tokens RENAME TO tokens_before;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  hash {blob} NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('admin', 'operator', 'read', 'gateway')),
  campaign TEXT NOT NULL,
  label TEXT NOT NULL,
  made BIGINT NOT NULL,
  expires BIGINT,
  revoked BIGINT
);
INSERT INTO tokens (id, hash, scope, campaign, label, made, expires, revoked)
  SELECT id, hash, scope, campaign, label, made, expires, revoked FROM tokens_before;
DROP TABLE tokens_before;
CREATE TABLE token_notes (
  entry {serial},
  at BIGINT NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('made', 'revoked')),
  token TEXT NOT NULL,
  scope TEXT NOT NULL,
  campaign TEXT NOT NULL,
  label TEXT NOT NULL,
  agents TEXT NOT NULL
);
