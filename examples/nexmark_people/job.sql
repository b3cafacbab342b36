-- Query 8 of NEXMark, who opens an auction soon after having come, is asked with five windows at
-- once. Query 3, who sells in certain states, shares the join: one state for all, cut into slices.
-- README.md says how to run it.

CREATE STREAM Person (ts TIMESTAMP, id BIGINT, name STRING, city STRING, state STRING)
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'examples/nexmark_people/data/person', maxFilesPerTrigger = '5');

CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, seller BIGINT, category BIGINT, reserve DOUBLE, expires TIMESTAMP)
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'examples/nexmark_people/data/auction', maxFilesPerTrigger = '5');

CREATE QUERY newcomers_5s AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 5 seconds] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY newcomers_15s AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 15 seconds] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY newcomers_30s AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 30 seconds] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY newcomers_1min AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 1 min] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY newcomers_2min AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 2 min] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY local_items AS
SELECT A.name, A.city, A.state, B.id AS auction
FROM Person [RANGE 4 min] A, Auction [NOW] B
WHERE A.id = B.seller AND B.category = 10 AND A.state IN ('OR', 'ID', 'CA');
