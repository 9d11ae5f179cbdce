"""The delivery of pages to browsers: their branding, their files in compressed form, and the small pages that the server renders."""
