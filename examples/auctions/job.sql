-- Auctions are one of a kind (`UNIQUE`), and bids end with their auction (`PUNCTUATION WHEN closed`).
-- A bid is not kept, since no auction with its number will come again. An auction is let go when its
-- last bid has come. `EMIT FINAL` tells what is asked per auction once, the moment that it is certain.
-- Each key that is over is written to `_punctuations` beside the rows of its query.
-- README.md says how to run it.

CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, seller BIGINT, category BIGINT, reserve DOUBLE, expires TIMESTAMP,
  UNIQUE (id))
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'examples/auctions/data/auction', maxFilesPerTrigger = '2');

CREATE STREAM Bid (ts TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, closed BOOLEAN)
  TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'parquet', path = 'examples/auctions/data/bid', maxFilesPerTrigger = '2');

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

-- NEXMark 9: the winning bid of each auction while it is open. An auction waits until its own end.
CREATE QUERY winning_bids AS
SELECT A.id AS auction, A.category, MAX(B.price) AS price
FROM Auction [RANGE 2 min] A, Bid [NOW] B
WHERE A.id = B.auction
GROUP BY A.id, A.category WINDOW UNTIL A.expires EMIT FINAL;

CREATE QUERY early_bids AS
SELECT A.id AS auction, A.category, COUNT(*) AS bids, MIN(B.price) AS lowest
FROM Auction [RANGE 10 seconds] A, Bid [NOW] B
WHERE A.id = B.auction AND B.price > 10
GROUP BY A.id, A.category HAVING COUNT(*) >= 5 EMIT FINAL;
