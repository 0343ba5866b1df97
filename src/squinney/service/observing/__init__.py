"""What a running process tells its operators: metrics, log lines, slow commands."""
