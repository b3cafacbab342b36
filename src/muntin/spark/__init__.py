"""The shell around the core: sources, exchange, durable state, sink, control. The only place that imports pyspark."""
