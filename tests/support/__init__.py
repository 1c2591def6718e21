"""What tests share: trials a second time, random worlds, services, a browser, and the program from outside."""
