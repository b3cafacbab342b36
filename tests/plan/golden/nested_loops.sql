CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY band AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE ABS(A.Value - B.Value) < 5 WINDOW 10 s;

CREATE QUERY higher AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.Value > B.Value AND B.Value > 20 WINDOW 4 s;

CREATE QUERY lower_lately AS SELECT A.id AS a, B.id AS b FROM Temperature [ROWS 4] A, Humidity [ROWS 6] B
WHERE A.Value < B.Value;

CREATE QUERY by_place AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.Value < B.Value AND A.LocationId BETWEEN B.LocationId - 1 AND B.LocationId + 2
  AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 3 SECONDS;
