"""The gateway: unmodified clients of Azure Service Bus, which speak AMQP 1.0, on the queues of a database."""
