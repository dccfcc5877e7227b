"""Pure client-side machines, as Kafka's own clients have them: no network, no clock."""
