"""Foreign protocols (AMQP 1.0, STOMP, MQTT) translated to sessions at the edge of a client manager."""
