CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY last_three AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 3 ROWS;

CREATE QUERY last_ten AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 30 WINDOW 10 ROWS;

CREATE QUERY mixed AS SELECT A.id AS a, B.id AS b FROM Temperature [ROWS 1] A, Humidity [RANGE 10 s] B
WHERE A.LocationId = B.LocationId;
