"""Child processes of a service: the learner, workers, the encoder tuner."""
