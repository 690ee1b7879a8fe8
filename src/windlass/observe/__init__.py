"""How it is MEASURED: logs, and later metrics, traces and alerts. Nobody who works waits for it."""
