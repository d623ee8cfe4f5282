truncate floor.message;
