-- Temperature and humidity at a thousand locations of a data centre. Three queries ask the same join
-- with windows of 5 seconds, 1 minute and 2 minutes and conditions of their own. They become one join
-- whose state is cut into three slices. `RATE` is what to expect; it changes no answer, but the choice
-- of a plan rests on it.
-- README.md says how to run it.

CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts RATE 100 PER SECOND
  WITH (format = 'parquet', path = 'examples/datacentre/data/temperature', maxFilesPerTrigger = '2');

CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts RATE 100 PER SECOND
  WITH (format = 'parquet', path = 'examples/datacentre/data/humidity', maxFilesPerTrigger = '2');

CREATE QUERY now_and_here AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
WINDOW 5 seconds;

CREATE QUERY muggy AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A JOIN Humidity B ON A.LocationId = B.LocationId
WHERE A.Value > 28 AND B.Value > 65
WINDOW 1 min;

CREATE QUERY dry_or_freezing AS
SELECT A.*, B.Value AS humidity, CASE WHEN A.Value < 16 THEN 'freezing' ELSE 'dry' END AS why
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND (A.Value < 16 OR A.Value BETWEEN 27 AND 35) AND B.Value < 40
WINDOW 2 min;
