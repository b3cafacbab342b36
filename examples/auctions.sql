-- Auctions that are one of a kind, and bids that end with their auction: ding2004's example, on NEXMark's streams. A bid is
-- not kept, since no auction with its number will come again; an auction is let go when its last bid has come. What is
-- asked per auction is told once, the moment that it is certain: when the auction closes, or its window has passed. Each
-- key that is over is written to out/<query>/_punctuations.
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

CREATE QUERY bids_per_auction AS
SELECT A.id AS auction, COUNT(*) AS bids, COUNT(DISTINCT B.bidder) AS bidders, MAX(B.price) AS highest
FROM Auction [RANGE 2 min] A, Bid [NOW] B
WHERE A.id = B.auction
GROUP BY A.id EMIT FINAL;

CREATE QUERY early_bids AS
SELECT A.id AS auction, A.category, COUNT(*) AS bids, MIN(B.price) AS lowest
FROM Auction [RANGE 10 seconds] A, Bid [NOW] B
WHERE A.id = B.auction AND B.price > 10
GROUP BY A.id, A.category HAVING COUNT(*) >= 5 EMIT FINAL;
