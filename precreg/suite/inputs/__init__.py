"""The room suite/inputs."""
