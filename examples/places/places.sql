-- Where sensors are: a table beside two streams.

CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'data/temperature', maxFilesPerTrigger = '1');

CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE)
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'data/humidity', maxFilesPerTrigger = '1');

CREATE TABLE Places (id BIGINT, building STRING, floor INT)
  WITH (format = 'csv', header = 'true', path = 'examples/places/places.csv');

-- Readings of the North building, with the floor.
CREATE QUERY north AS
SELECT A.LocationId, P.floor, A.Value AS temperature, B.Value AS humidity
FROM Temperature A JOIN Humidity B ON A.LocationId = B.LocationId
  JOIN Places P ON A.LocationId = P.id
WHERE P.building = 'North'
WINDOW 30 seconds;

-- All readings; where the place is not known, the building is NULL.
CREATE QUERY everywhere AS
SELECT A.LocationId, P.building, A.Value AS temperature, B.Value AS humidity
FROM Temperature A JOIN Humidity B ON A.LocationId = B.LocationId
  LEFT JOIN Places P ON A.LocationId = P.id
WINDOW 5 seconds;

-- How many readings each building has had in the last half minute.
CREATE QUERY per_building AS
SELECT P.building, COUNT(*) AS readings, MAX(A.Value) AS hottest
FROM Temperature A, Humidity B, Places P
WHERE A.LocationId = B.LocationId AND A.LocationId = P.id
GROUP BY P.building
WINDOW 30 seconds EVERY 30 seconds;
