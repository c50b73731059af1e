"""The analyzer's API and pages."""
