"""What the limits of a queue cost those who receive from it."""
