"""Every sentence of a report, in each language. A test checks that no language lacks a sentence or a value in it."""
