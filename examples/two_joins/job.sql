-- Queries share a join where their keys agree. Here two of them join readings of the same location,
-- and a third joins readings of the same value: two joins, and each stream is still read once. The
-- streams are out of order by up to two seconds, and two queries give each stream a window of its own.
-- README.md says how to run it.

SET output_order = 'global';

CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 2 seconds
  WITH (format = 'parquet', path = 'examples/two_joins/data/temperature', maxFilesPerTrigger = '5');

CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts LATENESS 2 seconds
  WITH (format = 'parquet', path = 'examples/two_joins/data/humidity', maxFilesPerTrigger = '5');

-- Heat that was followed by damp within a minute and a half; damp that came first counts for one second.
CREATE QUERY damp_after_heat AS
SELECT A.LocationId, A.ts AS heated, B.ts AS damp
FROM Temperature [RANGE 90 seconds] A, Humidity [RANGE 1 second] B
WHERE A.LocationId = B.LocationId AND A.Value > 28 AND B.Value > 60;

-- The last minute of temperatures for every humidity, and nothing the other way round.
CREATE QUERY before_damp AS
SELECT B.LocationId, B.Value AS humidity, A.Value AS temperature
FROM Temperature [RANGE 1 min] A, Humidity [NOW] B
WHERE A.LocationId = B.LocationId AND B.Value > 75;

-- Another key, hence another join: the same number read by both kinds of sensor, wherever they are.
CREATE QUERY echo AS
SELECT A.LocationId AS warm_at, B.LocationId AS damp_at, A.Value
FROM Temperature A, Humidity B
WHERE A.Value = B.Value
WINDOW 10 seconds;
