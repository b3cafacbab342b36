-- Sensors whose messages come from Kafka. The address is in the environment: README.md says how.

CREATE STREAM Temperature (ts TIMESTAMP, location BIGINT, value DOUBLE, at BIGINT METADATA FROM 'offset')
  TIMESTAMP BY ts LATENESS 5 seconds VALUE FORMAT JSON
  WITH (format = 'kafka', 'kafka.bootstrap.servers' = 'env:KAFKA_SERVERS', subscribe = 'temperature',
        startingOffsets = 'earliest');

CREATE STREAM Humidity (ts TIMESTAMP, location BIGINT, value DOUBLE)
  TIMESTAMP BY ts LATENESS 5 seconds VALUE FORMAT JSON
  WITH (format = 'kafka', 'kafka.bootstrap.servers' = 'env:KAFKA_SERVERS', subscribe = 'humidity',
        startingOffsets = 'earliest');

CREATE QUERY muggy AS
SELECT A.location, A.value AS temperature, B.value AS humidity, A.at AS offset
FROM Temperature A, Humidity B
WHERE A.location = B.location AND A.value > 26 AND B.value > 60
WINDOW 10 seconds;

CREATE QUERY pairs AS
SELECT A.location, COUNT(*) AS pairs
FROM Temperature A, Humidity B
WHERE A.location = B.location
GROUP BY A.location
WINDOW 1 min
EVERY 10 seconds;
