-- Who may ask the service, and what it has answered to admins' keys; see freepull.live.stores.serving.
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  hash {blob} NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('admin', 'read', 'gateway')),
  campaign TEXT NOT NULL,
  label TEXT NOT NULL,
  made BIGINT NOT NULL,
  expires BIGINT,
  revoked BIGINT
);
CREATE TABLE agent_versions (
  campaign TEXT NOT NULL,
  agent BIGINT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (campaign, agent)
);
CREATE TABLE secrets (
  name TEXT PRIMARY KEY,
  value {blob} NOT NULL
);
CREATE TABLE answered (
  id {blob} PRIMARY KEY,
  request {blob} NOT NULL,
  status BIGINT NOT NULL,
  body {blob} NOT NULL,
  at BIGINT NOT NULL
);
