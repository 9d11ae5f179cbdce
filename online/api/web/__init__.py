"""How pages reach a browser: their branding, their files in compressed form, and the small pages that the server renders."""
