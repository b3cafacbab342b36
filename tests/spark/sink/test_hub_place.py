"""Where the driver listens for results, and what an executor says that does not reach it."""

from __future__ import annotations

import socket

import pytest

from muntin.model import MuntinError, UsageError
from muntin.spark.exchange import Address
from muntin.spark.shard.eager_sender import Attempt, EagerSender
from muntin.spark.sink.hub_place import HubPlace


def test_it_is_where_executors_reach_the_driver_unless_settings_say_otherwise():
    driver = {"spark.driver.host": "driver", "spark.driver.bindAddress": "0.0.0.0"}
    assert HubPlace.of({}) == HubPlace("127.0.0.1", "127.0.0.1", 0)
    assert HubPlace.of({"spark.driver.host": "driver"}) == HubPlace("driver", "driver", 0)
    assert HubPlace.of(driver) == HubPlace("driver", "0.0.0.0", 0)
    own = {"spark.muntin.hub.host": "door", "spark.muntin.hub.port": "7080", "spark.muntin.hub.bindAddress": "::"}
    assert HubPlace.of(driver | own) == HubPlace("door", "::", 7080)


def test_the_next_port_is_taken_where_one_is_in_use():
    with HubPlace().listen() as first:
        port = first.getsockname()[1]
        with HubPlace(port=port).listen() as second:
            assert port < second.getsockname()[1] <= port + 16


@pytest.mark.parametrize("port", ["often", "-1", "65536"])
def test_a_port_that_cannot_be_is_refused(port):
    with pytest.raises(UsageError, match=r"spark\.muntin\.hub\.port"):
        HubPlace.of({"spark.muntin.hub.port": port})


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(UsageError, match=r"cannot listen for results on 192\.0\.2\.1") as refused:
        HubPlace("driver", "192.0.2.1").listen()
    assert "bindAddress" in str(refused.value.hint)


def test_an_executor_that_does_not_reach_the_driver_says_who_and_whom():
    with HubPlace().listen() as taken:
        port = taken.getsockname()[1]
    with pytest.raises(MuntinError, match=rf"{socket.gethostname()} does not reach the driver .* port {port}") as said:
        EagerSender(Address("127.0.0.1", port, "secret"), Attempt(0, 0, 0, 0, 0))
    assert "spark.muntin.hub.host" in str(said.value.hint)
