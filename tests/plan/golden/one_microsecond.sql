CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY ten_seconds AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 10 s;

CREATE QUERY a_bit_less AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 9999999 us;

CREATE QUERY a_bit_more AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 10000001 us;
