"""HTTP connections: uvicorn with limits, requests that are answered directly, and workers behind one port."""
