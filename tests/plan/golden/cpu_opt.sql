SET chain = 'cpu-opt';

CREATE STREAM Temperature (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds RATE 40000 PER SECOND WITH (format = 'parquet', path = 'data/temperature');
CREATE STREAM Humidity (ts TIMESTAMP, id BIGINT, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts RATE 40000 PER SECOND WITH (format = 'parquet', path = 'data/humidity');

CREATE QUERY w1 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 1 s;

CREATE QUERY w2 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 2 s;

CREATE QUERY w3 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 3 s;

CREATE QUERY w25 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 25 s;

CREATE QUERY w26 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId WINDOW 26 s;

CREATE QUERY w30 AS SELECT A.id AS a, B.id AS b FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 30 WINDOW 30 s;
