SET strategy = 'pull-up';

CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY short AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 5 s;

CREATE QUERY warm AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 30 WINDOW 15 s;

CREATE QUERY hot_and_wet AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 60 AND B.Value > 40 AND B.Value < 90 WINDOW 30 s;
