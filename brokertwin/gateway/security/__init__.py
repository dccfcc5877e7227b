"""TLS, SASL, credentials and principals of the gateway's listeners."""
