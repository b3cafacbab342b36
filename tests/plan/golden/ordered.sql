CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY band AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE ABS(A.Value - B.Value) < 5 WINDOW 10 s;

CREATE QUERY near_and_not_the_same AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.Value BETWEEN B.Value - 1 AND B.Value + 9 AND A.LocationId <> B.LocationId WINDOW 4 s;

CREATE QUERY further_up AS SELECT A.id AS a, B.id AS b FROM Temperature [ROWS 4] A, Humidity [ROWS 6] B
WHERE A.LocationId <= B.LocationId - 1;
