"""The Kafka listener of a node: clients of Kafka produce and consume the records of streams."""
