"""The devices on which models compute, and the fallbacks for too little memory."""
