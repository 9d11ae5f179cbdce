"""Routing: our router beside ParetoBandit and the usual controls, on recorded answers of several language models."""
