-- A checksum of every row, see freepull.campaigns.stores.sql (rows from before have none), and where each log ends;
-- what an offer pays, where that is not the price of the campaign.
ALTER TABLE campaigns ADD COLUMN head BIGINT;
ALTER TABLE campaigns ADD COLUMN seal BIGINT;
ALTER TABLE offers ADD COLUMN amount BIGINT;
ALTER TABLE offers ADD COLUMN seal BIGINT;
ALTER TABLE ledger ADD COLUMN seal BIGINT;
ALTER TABLE bans ADD COLUMN seal BIGINT;
ALTER TABLE audit ADD COLUMN seal BIGINT;
ALTER TABLE names ADD COLUMN seal BIGINT;
ALTER TABLE tokens ADD COLUMN seal BIGINT;
ALTER TABLE agent_versions ADD COLUMN seal BIGINT;
ALTER TABLE secrets ADD COLUMN seal BIGINT;
ALTER TABLE answered ADD COLUMN seal BIGINT;
ALTER TABLE token_notes ADD COLUMN seal BIGINT;
