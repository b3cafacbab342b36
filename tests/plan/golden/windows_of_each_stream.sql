SET output_order = 'key';
SET invalidation = 'all';

CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY long_left AS SELECT A.id AS a, B.id AS b
FROM Temperature [RANGE 20 s] A JOIN Humidity [NOW] B ON A.LocationId = B.LocationId;

CREATE QUERY long_right AS SELECT A.id AS a, B.id AS b
FROM Humidity [RANGE 12 s] B JOIN Temperature [RANGE 1500 ms] A ON A.LocationId = B.LocationId;
