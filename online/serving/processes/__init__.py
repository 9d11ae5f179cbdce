"""Child processes of a service: the learner, the store process, workers, the encoder tuner."""
