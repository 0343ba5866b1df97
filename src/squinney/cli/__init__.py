"""What the commands of all systems are made of: options, the connection, printing and exit codes."""
