CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');
CREATE STREAM Smoke (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/smoke');

CREATE QUERY short AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 5 s;

CREATE QUERY between AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 60 AND A.Value < 40 WINDOW 30 s;

CREATE QUERY nowhere AS SELECT A.id AS a, B.id AS b FROM Temperature A, Smoke B
WHERE A.LocationId = B.LocationId AND B.LocationId IN (1, 2) AND B.LocationId = 3 WINDOW 10 s;
