-- Auctions that are one of a kind, and bids that end with their auction: ding2004's example, on NEXMark's streams. A bid is
-- not kept, since no auction with its number will come again; an auction is let go when its last bid has come. Each key
-- that is over is written to out/<query>/_punctuations.
--
-- Run in the root of the repository:
--   muntin generate nexmark examples/data --rate 200 --duration 300 --auction 30
--   muntin run examples/auctions.sql --output out --checkpoint ckpt --bounded

CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, seller BIGINT, category BIGINT, reserve DOUBLE, expires TIMESTAMP,
  UNIQUE (id))
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'examples/data/auction', maxFilesPerTrigger = '2');

CREATE STREAM Bid (ts TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, closed BOOLEAN)
  TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'parquet', path = 'examples/data/bid', maxFilesPerTrigger = '2');

CREATE QUERY bids_in_20s AS
SELECT A.id AS auction, B.bidder, B.price
FROM Auction [RANGE 20 seconds] A, Bid [NOW] B
WHERE A.id = B.auction;

CREATE QUERY reserve_met AS
SELECT A.id AS auction, A.seller, B.bidder, B.price
FROM Auction [RANGE 2 min] A, Bid [NOW] B
WHERE A.id = B.auction AND B.price >= A.reserve;
