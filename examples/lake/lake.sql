-- One job, three kinds of output: a Delta table, an Iceberg table, and files of the job's output.
-- README.md says how to run it.

CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds
  WITH (format = 'parquet', path = 'examples/lake/data/temperature', maxFilesPerTrigger = '2');

CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds
  WITH (format = 'parquet', path = 'examples/lake/data/humidity', maxFilesPerTrigger = '2');

CREATE QUERY warm INTO DELTA 'examples/lake/tables/warm' AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 24
WINDOW 30 seconds;

CREATE QUERY damp INTO ICEBERG 'local.sensors.damp' AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND B.Value > 55
WINDOW 30 seconds;

CREATE QUERY both AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 24 AND B.Value > 55
WINDOW 30 seconds;
