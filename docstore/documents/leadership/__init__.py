"""Leadership of a slot: liveness, takeover, handover, deposition."""
