"""What must outlive a restart: verdict history, hourly accounts, configuration changes, episodes."""
