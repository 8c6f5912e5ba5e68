"""What becomes of a vocabulary after training: models that go on with another one."""
