SET state_limit = '2 GiB';
SET fan_out_limit = 1000000;

CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');
CREATE STREAM Smoke (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/smoke');
CREATE STREAM Unused (ts TIMESTAMP) TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/unused');

CREATE QUERY humid AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > B.Value WINDOW 10 s;

CREATE QUERY burning AS SELECT A.id AS a, B.id AS b FROM Smoke B, Temperature A
WHERE A.LocationId = B.LocationId AND B.Value > 10 WINDOW 20 s;

CREATE QUERY humid_too AS SELECT A.id AS a, B.id AS b FROM Humidity B, Temperature A
WHERE B.LocationId = A.LocationId AND (A.Value > 50 OR B.Value > 50) WINDOW 20 s;
